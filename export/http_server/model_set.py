"""The models of a server: which of them translate a pair of languages."""

import typing
from collections.abc import Iterable, Mapping, Sequence

from export.common.errors import InputError
from export.http_server.batcher import Batcher
from export.http_server.fields import RequestError
from export.loading import LoadedModel
from export.translators.languages import Languages

if typing.TYPE_CHECKING:
    from export.http_server.app import ServerLimits

# The code of an unknown language, as in BCP 47.
UNKNOWN = "und"


class ServedModel(typing.NamedTuple):
    """A LoadedModel, its name in paths, and its Batcher."""

    name: str
    model: LoadedModel
    batcher: Batcher


class Hop(typing.NamedTuple):
    """A ServedModel and the Languages of the texts that it translates."""

    served: ServedModel
    languages: Languages


class ModelSet:
    """The models of a server; the first ones are preferred.

    Without a model from one language into another, two are used by way of a
    third language.
    """

    def __init__(
        self, models: Mapping[str, LoadedModel], limits: "ServerLimits"
    ):
        self._served = {
            name: ServedModel(
                name,
                model,
                Batcher(
                    model.run,
                    limits.max_batch,
                    limits.max_waiting,
                    limits.num_threads,
                ),
            )
            for name, model in models.items()
        }

    def __iter__(self):
        return iter(self._served.values())

    def __getitem__(self, name: str) -> ServedModel:
        return self._served[name]

    def __len__(self) -> int:
        return len(self._served)

    @property
    def num_waiting(self) -> int:
        """Number of texts that wait."""
        return sum(served.batcher.num_waiting for served in self)

    def close(self) -> None:
        """Finishes waiting texts, then ends the threads."""
        for served in self:
            served.batcher.close()

    def find_route(
        self,
        source: str | None,
        target: str | None,
        texts: Iterable[str] = (),
    ) -> list[Hop]:
        """Returns one Hop, or two, from a language into another.

        None is the language of the first model that has one. Raises
        RequestError if no models translate these texts.
        """
        texts, problem = [*texts], None
        for served in self:
            try:
                return [_select(served, source, target, texts)]
            except InputError as error:
                problem = problem or error
        if len(self) > 1 and source and target:
            for first in self:
                for pivot in target_codes(first.model.languages):
                    try:
                        hop = _select(first, source, pivot, texts)
                    except InputError:
                        continue
                    for second in self:
                        try:
                            return [hop, _select(second, pivot, target)]
                        except InputError:
                            continue
            raise RequestError(
                400,
                f"No model translates from {source} to {target}, nor two; "
                "/languages has the pairs.",
            )
        raise RequestError(400, str(problem))

    def source_codes(self) -> list[str]:
        """Returns the codes of all sources, the first model's first."""
        codes: dict[str, None] = {}
        for served in self:
            codes |= dict.fromkeys(source_codes(served.model.languages))
        return [*codes]

    def list_languages(self) -> list[dict[str, typing.Any]]:
        """Returns LibreTranslate's list of languages, the default ones first.

        `models` has the names of the models for targets without a pivot, and
        `tags` the sides, 0 for the source, of the tags that their texts have.
        """
        pairs: dict[str, dict[str, str | None]] = {}
        sides: dict[str, list[int]] = {}
        for served in self:
            languages = served.model.languages
            tags = [("source", "target").index(x) for x in languages.tag_sides]
            for source in source_codes(languages):
                targets = pairs.setdefault(source, {})
                sides.setdefault(source, tags)
                for target in target_codes(languages):
                    targets.setdefault(target, served.name)
        direct = {source: [*targets] for source, targets in pairs.items()}
        for source, targets in pairs.items():
            for pivot in direct[source]:
                for target in direct.get(pivot, ()):
                    if target != source:
                        targets.setdefault(target, None)
        return [
            {
                "code": source,
                "name": source,
                "targets": [*targets],
                "models": {
                    target: name for target, name in targets.items() if name
                },
                "tags": sides[source],
            }
            for source, targets in pairs.items()
        ]


def source_codes(languages: Languages) -> list[str]:
    """Returns the codes of sources of a model, the default one first."""
    has_sources = "source" in languages.tag_sides
    return _put_first(languages.source, languages.codes if has_sources else ())


def target_codes(languages: Languages) -> list[str]:
    """Returns the codes of targets of a model, the default one first."""
    return _put_first(languages.target, languages.codes)


def _put_first(code: str | None, codes: Sequence[str]) -> list[str]:
    first = code or UNKNOWN
    return sorted(codes, key=lambda each: each != first) or [first]


def _select(served, source, target, texts=()):
    """Returns a Hop; raises InputError if the model lacks a language."""
    languages = served.model.languages
    if target == UNKNOWN and not languages.codes:
        target = None
    languages = languages.select(None if source == UNKNOWN else source, target)
    for text in texts or ("a",):
        languages.tag(text)
    return Hop(served, languages)
