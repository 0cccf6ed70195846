"""Data that stand in for the papers' own, with the settings of runs on them.

EC-Zh and EC-JP are private. For documents a light model stands in for BERT-base, too:
the settings are those of examples/configs/reuters_light.yaml and its neighbours. Titles
of questions on cooking, with 735 tags, stand in for the data of extreme labels.
"""

_TAGS = {"tokenizer": "characters", "scheme": "plain"}
PHANTOM = {"data": "zh_ecommerce_ner/phantom", **_TAGS}
JA_WIKIPEDIA = {"data": "ja_wikipedia_ner", **_TAGS}

_LIGHT = {
    "task": "labels",
    "tokenizer": "words",
    "tokenizer_settings": {"min_count": 2},
    "encoder": "bat",
    "optimizer": "adamw",
    "learning_rate": 0.001,
    "monitor": "val_average-precision",
}
REUTERS = {
    **_LIGHT,
    "data": "reuters21578",
    "valid_fraction": 0.12872,
    "encoder_settings": {
        "d_model": 32,
        "d_ff": 64,
        "num_heads": 2,
        "num_layers": 1,
        "dropout": 0.2,
    },
    "model_settings": {
        "pooling": "mean",
        "words": True,
        "head_dropout": 0.2,
        "max_length": 256,
    },
    "loss": "db",
    "module_rates": {"encoder": 0.3},
    "epochs": 6,
    "batch_size": 32,
    "thresholds": "global",
}
_SHORT_TEXTS = {
    **_LIGHT,
    "encoder_settings": {
        "d_model": 64,
        "d_ff": 128,
        "num_heads": 4,
        "num_layers": 1,
        "dropout": 0.3,
    },
    "model_settings": {
        "pooling": "mean",
        "words": True,
        "head_dropout": 0.3,
        "max_length": 64,
    },
    "report_settings": {"zero_division": 1.0},
}
GOEMOTIONS = {**_SHORT_TEXTS, "data": "goemotions", "epochs": 5, "batch_size": 64}
COOKING = {**_SHORT_TEXTS, "data": "fasttext_cooking", "epochs": 12, "batch_size": 32}
COOKING["parts"] = {"train": "train", "test": "valid"}
COOKING_TAGS = {
    "task": "labels",
    "data": "fasttext_cooking",
    "parts": COOKING["parts"],
    "optimizer": "adamw",
    "learning_rate": 0.002,
    "epochs": 4,
    "batch_size": 64,
    "metrics": ["p@1", "p@5"],
    "monitor": "val_p@5",
    "train_metrics": False,
    "report_settings": {
        "num_confused": 0,
        "metrics": ["p@1", "p@3", "p@5", "psp@5"],
    },
}
# Frozen MiniLM stands in for RoBERTa-base: its six layers for the twelve.
FROZEN_EXPERTS = {
    "encoder": "bert",
    "encoder_settings": {"backbone": "minilm", "frozen_layers": 6},
    "model_settings": {"pooling": "mean", "max_length": 32, "diversity": 0.0},
    "loss": "zlpr",
    "cache_backbone": "runs/cooking_states",
}
COOKING_EXPERTS = {**COOKING_TAGS, **FROZEN_EXPERTS}
# The models of examples/configs/yso_xml_cnn.yaml and its neighbours.
_LEARNT = {"loss": "bce", "learning_rate": 0.001, "epochs": 10}
_WORDS = {**_LEARNT, "tokenizer": "words", "tokenizer_settings": {"min_count": 2}}
XML_BASELINES = {
    "XML-CNN": {
        **_WORDS,
        "encoder": "cnn",
        "encoder_settings": {
            "filters": 128,
            "kernel_sizes": [2, 4, 8],
            "embedding_width": 300,
        },
        "model_settings": {
            "pooling": "chunks",
            "num_chunks": 8,
            "hidden_width": 512,
            "head_dropout": 0.5,
            "max_length": 32,
        },
    },
    "AttnXML": {
        **_WORDS,
        "encoder": "bilstm",
        "encoder_settings": {
            "d_model": 512,
            "embedding_width": 300,
            "embedding_dropout": 0.2,
            "dropout": 0.5,
        },
        "model_settings": {"experts": ["A-1"], "diversity": 0.0, "max_length": 32},
        "batch_size": 40,
    },
    "LightXML": {
        **FROZEN_EXPERTS,
        **_LEARNT,
        "model_settings": {
            "experts": ["D-(6+5+4+3+2)"],
            "pooling": "first",
            "expert_width": 0,
            "head_dropout": 0.5,
            "diversity": 0.0,
            "max_length": 32,
        },
    },
}
