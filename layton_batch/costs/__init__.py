"""Usage × dated price in exact ``Decimal`` dollars: what a model costs, a request may cost, a run did cost."""
