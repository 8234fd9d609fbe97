"""Models that learn: tasks, the engine that trains them, checkpoints, data; and the translators, trained."""

from __future__ import annotations

from attnsuite.documents.learning.trained import Trained as Trained
from attnsuite.documents.learning.trained import translator as translator
