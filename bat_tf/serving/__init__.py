"""SavedModels and the texts and tags around them."""

from bat_tf.serving.bulk import tag_corpus as tag_corpus
from bat_tf.serving.client import Client as Client
from bat_tf.serving.client import ServerError as ServerError
from bat_tf.serving.export import export_model as export_model
from bat_tf.serving.export import ops_beyond_core as ops_beyond_core
from bat_tf.serving.inference import ServedClassifier as ServedClassifier
from bat_tf.serving.inference import ServedTagger as ServedTagger
from bat_tf.serving.inference import Tag as Tag
from bat_tf.serving.inference import load as load
