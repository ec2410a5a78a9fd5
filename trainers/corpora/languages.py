"""Settles the direction of a corpus from what the user asked for."""

from collections.abc import Sequence

from export.command import InputError


def resolve_languages(
    dataset: str,
    languages: Sequence[str],
    source: str | None,
    target: str | None,
    default: tuple[str, str] | None,
) -> tuple[str, str]:
    """Returns (source language, target language).

    Where neither is given, that is `default`; where one is given and the
    corpus has just two languages, the other follows.

    Args:
        dataset: the corpus as the user named it.
        languages: the languages the corpus has.
        source: the source language asked for, if any.
        target: the target language asked for, if any.
        default: the direction meant when none is asked for, if there is one.

    Raises:
        InputError: a language that the corpus does not have, the same one
            twice, or too little to tell the direction.
    """
    if source is None and target is None and default is not None:
        return default
    possible = ", ".join(languages)
    for language in (source, target):
        if language is not None and language not in languages:
            raise InputError(
                f"{dataset} has no language {language!r}; it has {possible}."
            )
    if len(languages) == 2:
        source = source or _other(languages, target)
        target = target or _other(languages, source)
    if source is None or target is None:
        raise InputError(
            f"{dataset} needs a source and a target language "
            f"(--source_language, --target_language); it has {possible}."
        )
    refuse_same(dataset, source, target, possible)
    return source, target


def refuse_same(dataset: str, source: str, target: str, possible: str) -> None:
    """Refuses a direction from a language into itself.

    Raises:
        InputError: the two are the same; the message lists `possible`.
    """
    if source == target:
        raise InputError(
            f"The source and the target language of {dataset} are both "
            f"{source!r}; choose two different ones of: {possible}."
        )


def _other(languages: Sequence[str], language: str | None) -> str | None:
    """Returns the one of two languages that `language` is not."""
    if language is None:
        return None
    return languages[1] if language == languages[0] else languages[0]
