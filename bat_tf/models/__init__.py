"""A model = preprocessor + encoder + heads; baselines, files and exports."""

from bat_tf._internal.lazy import passing_on

__getattr__, __all__ = passing_on(
    __name__,
    classifier="LabelClassifier",
    dictionary="DictionaryTagger",
    experts="ExpertClassifier",
    export="export_model ops_beyond_core",
    load="ServedClassifier ServedTagger",
    svm="SVMClassifier",
    tagger="BATTagger",
)
