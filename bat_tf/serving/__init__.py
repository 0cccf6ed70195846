"""Models at work: a local server with a page, a client, files of texts in bulk."""

from bat_tf.serving.bulk import tag_corpus as tag_corpus
from bat_tf.serving.client import Client as Client
from bat_tf.serving.client import ServerError as ServerError
from bat_tf.serving.engines import map_in_pandas as map_in_pandas
from bat_tf.serving.engines import ray_dataset as ray_dataset
