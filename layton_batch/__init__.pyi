from layton_batch.interface import compare as compare
from layton_batch.interface import judge as judge
from layton_batch.interface import leaderboard as leaderboard
from layton_batch.interface import plan as plan
from layton_batch.interface import run as run

__version__: str
