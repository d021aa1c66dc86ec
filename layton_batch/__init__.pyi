from layton_batch.commands.answers import answers as answers
from layton_batch.commands.answers import verdicts as verdicts
from layton_batch.commands.cancel import cancel as cancel
from layton_batch.commands.check import check as check
from layton_batch.commands.compare import compare as compare
from layton_batch.commands.cost import cost as cost
from layton_batch.commands.export import export as export
from layton_batch.commands.grade import grade as grade
from layton_batch.commands.import_ import import_ as import_
from layton_batch.commands.judge import judge as judge
from layton_batch.commands.judges import judges as judges
from layton_batch.commands.label_import import label_import as label_import
from layton_batch.commands.label_plan import label_plan as label_plan
from layton_batch.commands.leaderboard import leaderboard as leaderboard
from layton_batch.commands.overnight import overnight as overnight
from layton_batch.commands.plan import plan as plan
from layton_batch.commands.resolve import resolve as resolve
from layton_batch.commands.retry import retry as retry
from layton_batch.commands.run import run as run
from layton_batch.commands.site import site as site
from layton_batch.commands.status import status as status
from layton_batch.commands.status import statuses as statuses
from layton_batch.commands.verify import verify as verify

__version__: str
