"""Models that learn: tasks, the engine that trains them, checkpoints, data; and the translators, trained."""

from attnsuite.documents.learning.engine import train as train
from attnsuite.documents.learning.tasks import Job as Job
from attnsuite.documents.learning.tasks import Translator as Translator
from attnsuite.documents.learning.tasks import translator as translator
