"""The Keras models: encoder states → logits → tags and labels."""

from bat_tf.models.classifier import LabelClassifier as LabelClassifier
from bat_tf.models.consistency import consistent as consistent
from bat_tf.models.dictionary import DictionaryTagger as DictionaryTagger
from bat_tf.models.experts import ExpertClassifier as ExpertClassifier
from bat_tf.models.shortlist import Shortlist as Shortlist
from bat_tf.models.svm import SVMClassifier as SVMClassifier
from bat_tf.models.tagger import BATTagger as BATTagger
