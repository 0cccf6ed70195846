"""Small data and models that many test files share."""

import bat_tf

ENCODER = {"d_model": 16, "d_ff": 32, "num_heads": 2, "num_layers": 1}


def dataset(size=48, split="train"):
    return bat_tf.data.read("product_pages/en", split=split).take(size)


def tagger(train=None, tokenizer="words", compiled=True, **settings):
    # Determinism is for good in a process and would keep XLA from compiling.
    bat_tf.training.set_seed(1, deterministic=False)
    model = bat_tf.BATTagger.for_data(
        train or dataset(), tokenizer=tokenizer, **{**ENCODER, **settings}
    )
    if compiled:
        metrics = ["token_macro_f1", "token_macro_f2"]
        model.compile(bat_tf.optimizers.Adam(), loss="ce", metrics=metrics)
    return model
