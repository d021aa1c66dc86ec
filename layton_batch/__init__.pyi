from layton_batch.interface import compare as compare
from layton_batch.interface import cost as cost
from layton_batch.interface import export as export
from layton_batch.interface import import_ as import_
from layton_batch.interface import judge as judge
from layton_batch.interface import judges as judges
from layton_batch.interface import label_import as label_import
from layton_batch.interface import label_plan as label_plan
from layton_batch.interface import leaderboard as leaderboard
from layton_batch.interface import plan as plan
from layton_batch.interface import run as run
from layton_batch.interface import site as site
from layton_batch.interface import status as status
from layton_batch.interface import verify as verify

__version__: str
