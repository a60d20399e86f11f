"""Former place of `minibert.tasks`, kept for one release: import these names from `minibert`."""

from minibert.tasks.answers import answer_question as answer_question
from minibert.tasks.classification import classify as classify
from minibert.tasks.entities import find_entities as find_entities
from minibert.tasks.masks import fill_mask as fill_mask
