"""The paper's BLEU against a pipeline of perl that knows nothing of ours."""

import subprocess

import pytest
import sacrebleu

from trainers.data import EvaluationSet
from trainers.scores.metrics import score_compound_split

HYPOTHESES = [
    "Das rich-text-Format ist in der EU-Kommission bekannt, sagte „Müller“.",
    "Er kam um 10.30 Uhr - nicht um 9-10 Uhr - in das A-B-C-Haus & ging.",
    "»Gut«, so heißt’s im 3,5-fachen Test mit “vielen” Worten: (ja)!",
    "Die Frau steht auf der Straße und sieht den Hund an .",
]
REFERENCES = [
    (
        'Das Rich-text-Format ist in der EU-Kommission bekannt, so "Müller".',
        "Das Format ist bekannt, so „Müller“.",
    ),
    (
        "Er kam um 10.30 Uhr - nicht um 9-10 Uhr - in das A-B-C-Haus und ging.",
        "Er kam um 10.30 Uhr in das A-B-C-Haus.",
    ),
    (
        "„Gut“, so heißt's im 3,5-fachen Test mit vielen Worten: (ja)!",
        "«Gut», heißt es im Test mit “vielen” Worten!",
    ),
    (
        "Die Frau steht auf der Straße und sieht einen Hund an.",
        "Eine Frau sieht den Hund an .",
    ),
]
QUOTES = r"s/„|“|”|«|»/\"/g; s/‚|‘|’/'/g"
# The rules of mteval-v13a.pl for languages with spaces.
TOKENIZE = r"""perl -CSD -ple '
  $_ = " $_ ";
  s/([\{-\~\[-\` -\&\(-\+\:-\@\/])/ $1 /g;
  s/([^0-9])([\.,])/$1 $2 /g;
  s/([\.,])([^0-9])/ $1 $2/g;
  s/([0-9])(-)/$1 $2 /g;
  s/\s+/ /g; s/^ | $//g;'"""
SPLIT = r"""perl -ple 's{(\S)-(\S)}{$1 ##AT##-##AT## $2}g'"""
# Counts as multi-bleu.perl does: the closest length, of two the shorter;
# clipped by the most of any reference; no smoothing. Tab between references.
COUNT = r"""perl -e '
  open H, shift; open R, shift;
  while (my $h = <H>) {
    chomp $h; chomp(my $r = <R>); my @h = split " ", $h; my ($close, %most);
    for (split /\t/, $r) {
      my @r = split; my %c;
      my ($new, $old) = (abs(@r - @h), defined $close ? abs($close - @h) : 0);
      $close = @r if !defined $close || $new < $old
        || ($new == $old && @r < $close);
      for my $n (1 .. 4) { for my $i (0 .. @r - $n) {
        my $g = "@r[$i .. $i + $n - 1]"; $c{$g}++;
        $most{$g} = $c{$g} if $c{$g} > ($most{$g} // 0); } }
    }
    $len += @h; $ref += $close;
    my %c;
    for my $n (1 .. 4) { for my $i (0 .. @h - $n) {
      my $g = "@h[$i .. $i + $n - 1]"; $all[$n]++;
      $ok[$n]++ if ++$c{$g} <= ($most{$g} // 0); } }
  }
  my $s = 0; $s += log($ok[$_] / $all[$_]) / 4 for 1 .. 4;
  $s += 1 - $ref / $len if $len < $ref;
  printf "%.9f\n", 100 * exp $s;' """


def _pipeline(folder, steps, streams):
    """Writes each stream's lines through a shell pipeline."""
    paths = []
    for number, lines in enumerate(streams):
        raw, done = folder / f"{number}.raw", folder / f"{number}.done"
        raw.write_text("".join(f"{line}\n" for line in lines))
        command = " | ".join(steps)
        subprocess.run(
            f"cat {raw} | {command} > {done}", shell=True, check=True
        )
        paths.append(done)
    return paths


@pytest.mark.parametrize(("count", "tokenize"), [(1, "none"), (2, "13a")])
def test_equals_a_pipeline_of_sed_and_perl(tmp_path, count, tokenize):
    steps = [f'sed -E "{QUOTES}"', *[TOKENIZE] * (tokenize == "13a"), SPLIT]
    references = [group[:count] for group in REFERENCES]
    hypotheses, *files = _pipeline(
        tmp_path, steps, [HYPOTHESES, *zip(*references)]
    )
    joined = tmp_path / "references"
    files = " ".join(map(str, files))
    told = subprocess.run(
        f"paste {files} > {joined}; {COUNT} {hypotheses} {joined}",
        shell=True,
        check=True,
        capture_output=True,
        text=True,
    )
    assert not told.stderr
    score = score_compound_split(
        HYPOTHESES,
        EvaluationSet(("source",) * 4, tuple(references)),
        tokenize,
    )
    assert 20 < float(told.stdout) < 95
    assert score.score == pytest.approx(float(told.stdout), abs=1e-8)
    how = f"|pretok:{tokenize}|hyphens:split|"
    assert f"{how}nrefs:{count}|" in score.signature


def test_chinese_is_counted_in_the_words_that_bleu_counts():
    one = EvaluationSet(("s",), (("他说 rich-text 很好。",),))
    metric = sacrebleu.BLEU(tokenize="none", smooth_method="none", force=True)
    words = "他 说 rich ##AT##-##AT## text 很 {} 。".format
    right = metric.corpus_score([words("好")], [[words("坏")]])
    score = score_compound_split(["他说 rich-text 很坏。"], one, "zh")
    assert 0 < right.score < 90
    assert score.score == pytest.approx(right.score)


def test_smoothing_spaces_and_quotes():
    for text, reference, score in (
        # Without smoothing.
        ("v w x y z", "a b c d e", 0),
        # A no-break space is a character to a perl that reads bytes, as the
        # authors' did.
        ("eins\u00a0-\u00a0zwei drei vier", "eins-zwei drei vier", 100),
        ("„a“ ”b” «c» ‚d‘ e’s f", '"a" "b" "c" \'d\' e\'s f', 100),
    ):
        one = EvaluationSet(("s",), ((reference,),))
        found = score_compound_split([text], one, "none").score
        assert found == pytest.approx(score)
