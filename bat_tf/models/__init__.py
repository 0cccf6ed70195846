"""The Keras models: encoder states → logits → tags and labels."""

from bat_tf.models.dictionary import DictionaryTagger as DictionaryTagger
from bat_tf.models.tagger import BATTagger as BATTagger
