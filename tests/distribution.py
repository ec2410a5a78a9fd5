"""Which worker of pytest-xdist runs which tests.

A file's tests run on one worker, so that what they share is made once; files
that share something that takes long to make run on one as well. What takes
longest comes first, so that the workers end at about the same time.
"""

# Of the files that are named, longest first.
GROUPS = (
    # An exported model, and a server of it.
    (
        "export/test_check.py",
        "export/client/test_client.py",
        "export/test_fuzz.py",
        "export/serving/test_saved_model.py",
        "export/serving/test_served_parser.py",
        "export/lines/test_score.py",
        "export/serving/test_served_signatures.py",
        "export/serving/test_served_translator.py",
        "export/lines/test_translate.py",
    ),
    ("trainers/training/test_workers.py",),
    # A training from data to a score.
    (
        "trainers/scores/test_evaluate.py",
        "trainers/wmt/test_tensorboard.py",
        "trainers/wmt/test_wmt.py",
        "trainers/wmt/test_signals.py",
        "trainers/wmt/test_bad_input.py",
        "export/common/test_folder_lock.py",
    ),
    ("trainers/training/test_replicas.py",),
    ("trainers/reports/test_table3.py",),
    ("trainers/wmt/test_options.py", "trainers/wmt/test_runs.py"),
    ("trainers/training/test_training_model.py",),
    ("trainers/wmt/test_full_disk.py",),
    ("export/translators/test_translator.py",),
    ("keras_transformer/decoding/test_translate.py",),
)
_NUMBERS = {
    f"tests/{name}": number
    for number, names in enumerate(GROUPS)
    for name in names
}


def in_order(items):
    """The items with the slow groups first."""
    return sorted(
        items, key=lambda item: _NUMBERS.get(_file(item.nodeid), len(GROUPS))
    )


def group_of(nodeid):
    """Returns the name of what is run on one worker."""
    file = _file(nodeid)
    return str(_NUMBERS.get(file, file))


def _file(nodeid):
    return nodeid.partition("::")[0]
