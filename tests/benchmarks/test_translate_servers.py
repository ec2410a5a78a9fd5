"""The comparison of servers."""

from tests.benchmarks.commands import run
from tests.export.http_server.running import MadeUpModel, run_server


def test_each_server_is_asked(tmp_path):
    text = tmp_path / "text"
    text.write_text("a b\nc\n")
    with run_server(MadeUpModel()) as one, run_server(MadeUpModel()) as other:
        done = run(
            "translate_servers",
            *(f"--url={one}", f"--url={other}", f"--text={text}"),
            *("--callers=2", "--rounds=1", "--seconds=0.3"),
        )
    assert done.code == 0, done.err
    rows = [line.split() for line in done.out.splitlines()[1:]]
    assert [row[-1] for row in rows] == [one, other]
    assert all(row[0] == "2" and float(row[1]) > 0 for row in rows)
    assert float(rows[0][3]) == 1
