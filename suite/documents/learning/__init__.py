"""Training of models: tasks, the training loop, checkpoints, data, and trained translators."""

from attnsuite.documents.learning.engine import train as train
from attnsuite.documents.learning.tasks import Job as Job
from attnsuite.documents.learning.tasks import Translator as Translator
from attnsuite.documents.learning.tasks import translator as translator
from attnsuite.documents.learning.tasks import translator_from as translator_from
