"""Charts that a run draws are the same when ``verify`` draws them again."""

from tests.site.conftest import equal_charts_drawn_once as equal_charts_drawn_once
