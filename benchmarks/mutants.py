"""At least nine in ten small changes of the code must be noticed by a test.

    python benchmarks/mutants.py "skparisk/core/losses.py"

mutmut makes the changes. Each is tried in a fork of one process that has collected the
tests: the function is given the code of its mutant there, wherever it is imported, and
only tests run that reach the line, until one fails. First come those that are quick
and reach little else, and those that have noticed other changes of the function. What
a test reaches, and how long it takes, is measured in forks as well: once, and again
when a file that it reaches has changed, as lines are numbers.

All is kept in the file of `--state`, to be resumed; what has changed since is tried
again. `--again` tries survivors once more, with new tests or a larger `--budget`, and
`--show` prints them, but for those that `mutants.txt` gives a reason for.

One file, as it is no part of the package and shares nothing with other scripts.
"""

from __future__ import annotations

import argparse
import difflib
import fnmatch
import gc
import hashlib
import json
import os
import re
import resource
import select
import signal
import sys
import time
from collections import Counter, defaultdict
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import FunctionType

import libcst as cst
import pytest
from coverage import Coverage
from libcst.metadata import MetadataWrapper, PositionProvider
from mutmut.configuration import config
from mutmut.mutation.file_mutation import MutationVisitor
from mutmut.mutation.mutators import mutation_operators
from mutmut.mutation.pragma_handling import get_ignored_lines

ROOT = Path(__file__).resolve().parents[1]
REASONS = ROOT / "benchmarks" / "mutants.txt"
FUTURE = cst.parse_statement("from __future__ import annotations")
OVERLOAD = cst.parse_expression("overload")
MEMORY = 2**33  # bytes of a fork


@dataclass
class Mutant:
    """One change of one function."""

    path: str
    function: str  # of a class, with its name
    first: int  # lines of the function, with its decorators
    last: int
    lines: range  # of the statement that changes
    before: cst.FunctionDef
    after: cst.FunctionDef

    def __post_init__(self):
        code = cst.Module([]).code_for_node
        self.old, self.new = code(self.before), code(self.after)
        text = hashlib.sha256(f"{self.old}\0{self.new}".encode()).hexdigest()
        self.key = f"{self.path}:{self.function} {text[:12]}"

    def diff(self):
        lines = (self.old.splitlines(), self.new.splitlines())
        return [*difflib.unified_diff(*lines, lineterm="", n=1)][3:]

    def compiled(self, names):
        """Return the function as changed."""
        owner, _, name = self.function.rpartition(".")
        node = self.after
        if owner:
            node = cst.ClassDef(cst.Name(owner), cst.IndentedBlock([node]))
        space = dict(names)
        text = cst.Module([FUTURE, node]).code
        exec(compile(text, str(ROOT / self.path), "exec"), space)
        found = vars(space[owner])[name] if owner else space[name]
        return getattr(found, "__func__", found)  # of __init_subclass__


class Visitor(MutationVisitor):
    """As mutmut does, but properties and cached functions are not left out."""

    def _skip_node_and_children(self, node):
        if isinstance(node, cst.FunctionDef):
            if any(d.decorator.deep_equals(OVERLOAD) for d in node.decorators):
                return True
            node = node.with_changes(decorators=())
        return super()._skip_node_and_children(node)


def mutants_of(path):
    """Return the mutants of one file."""
    text = (ROOT / path).read_text()
    wrapper = MetadataWrapper(cst.parse_module(text))
    visitor = Visitor(mutation_operators, get_ignored_lines(path, text, wrapper))
    wrapper.visit(visitor)
    where, owners, parents = wrapper.resolve(PositionProvider), {}, {}
    todo = [wrapper.module]
    for node in todo:
        parents |= dict.fromkeys(node.children, node)
        todo += node.children
        if isinstance(node, cst.ClassDef):
            owners |= dict.fromkeys(node.body.body, node.name.value + ".")
    found = []
    for mutation in visitor.mutations:
        outer = mutation.contained_by_top_level_function
        if not isinstance(outer, cst.FunctionDef):
            continue
        node = statement = mutation.original_node
        while not isinstance(statement, cst.SimpleStatementLine | cst.FunctionDef):
            statement = parents[statement]
        while node not in where:
            node = parents[node]
        span = where[statement if statement is not outer else node]
        bare = outer.with_changes(decorators=(), leading_lines=())
        changed = bare.deep_replace(mutation.original_node, mutation.mutated_node)
        starts = [where[n].start.line for n in (outer, *outer.decorators)]
        lines = range(span.start.line, span.end.line + 1)
        name = owners.get(outer, "") + outer.name.value
        last = where[outer].end.line
        found.append(Mutant(path, name, min(starts), last, lines, bare, changed))
    return found


class State:
    """What is known of tests and mutants, in a file of one record a line."""

    def __init__(self, path):
        self.path, self.tests, self.mutants = Path(path), {}, {}
        if self.path.exists():
            for line in self.path.read_text().splitlines():
                self._take(json.loads(line))

    def _take(self, record):
        kind = "test" if "test" in record else "mutant"
        (self.tests if kind == "test" else self.mutants)[record[kind]] = record

    def add(self, **record):
        self._take(record)
        with self.path.open("a") as file:
            file.write(json.dumps(record) + "\n")


def run_in_forks(jobs, n_jobs):
    """Yield the number of each job and its answer; None where it took too long.

    Jobs are pairs of a function and the most seconds that its fork may be there.
    """
    jobs, running = iter(enumerate(jobs)), {}
    while True:
        while len(running) < n_jobs and (job := next(jobs, None)):
            number, (work, limit) = job
            read, write = os.pipe()
            if not (pid := os.fork()):
                _work(work, write)
            os.close(write)
            running[read] = [number, pid, time.monotonic() + limit, b""]
        if not running:
            return
        ready = select.select([*running], [], [], 0.5)[0]
        for read, (number, pid, end, text) in [*running.items()]:
            if read in ready and (data := os.read(read, 2**20)):
                running[read][3] += data
            elif read in ready or time.monotonic() > end:
                del running[read]
                os.close(read)
                for kill in (os.killpg, os.kill):  # with all that it has started
                    with suppress(ProcessLookupError):
                        kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
                yield number, json.loads(text) if read in ready and text else None


def _work(work, write):
    os.setpgid(0, 0)
    nothing = os.open(os.devnull, os.O_RDWR)
    for n in range(3):
        os.dup2(nothing, n)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    try:
        answer = json.dumps(work()).encode()
        while answer:
            answer = answer[os.write(write, answer) :]
    finally:
        os._exit(0)


@cache
def digest(path):
    """Return what tells if a file has changed."""
    path = ROOT / path
    return hashlib.sha256(path.read_bytes() if path.exists() else b"").hexdigest()[:12]


def is_measured(test):
    """Tell if all files that a test reached, and its own, are as they were then."""
    return bool(test and test.get("of")) and all(
        digest(path) == known for path, known in test["of"].items()
    )


class Trial:
    """The plugin that tries mutants in place of running the tests."""

    def __init__(self, options, state):
        self.options, self.state = options, state

    def pytest_collection(self, session):
        from hypothesis import Phase, settings  # not before pytest has looked at it

        # To make an example smaller takes longer than to find it.
        quick = settings(settings.default, phases=[Phase.explicit, Phase.generate])
        settings.register_profile("mutants", quick)
        settings.load_profile("mutants")

    def pytest_runtestloop(self, session):
        plugins = session.config.pluginmanager
        plugins.unregister(name="terminalreporter")
        # Noise repeats in the process of the tests only.
        self.repeated = [p for p in plugins.get_plugins() if hasattr(p, "_pid")]
        self.session = session
        self.items = {item.nodeid: item for item in session.items}
        self.functions = defaultdict(list)
        for found in gc.get_objects():
            if isinstance(found, FunctionType):
                code = found.__code__
                self.functions[code.co_filename, code.co_qualname].append(found)
        gc.freeze()
        self.measure()
        self.try_mutants()
        return True

    def run_tests(self, items):
        """Run tests in this fork until one fails; return the one that does."""
        for plugin in self.repeated:
            plugin._pid = os.getpid()
        for item, following in zip(items, [*items, None][1:], strict=True):
            known = self.state.tests.get(item.nodeid)
            used = sum(resource.getrusage(resource.RUSAGE_SELF)[:2])
            most = used + (2 + 4 * known["seconds"] if known else 120)
            resource.setrlimit(resource.RLIMIT_CPU, (int(most) + 1, 2**30))
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if self.session.testsfailed:
                return item.nodeid
        return None

    def measure(self):
        """Learn how long each test takes, and which lines it reaches."""
        chosen = [n for n in self.items if re.search(self.options.tests, n)]
        new = [
            self.items[n] for n in chosen if not is_measured(self.state.tests.get(n))
        ]
        print(len(chosen), "tests,", len(new), "to be measured", flush=True)

        def work(item):
            files = self.options.all
            cover = Coverage(data_file=None, config_file=False, include=files)
            cover.set_option("run:disable_warnings", ["no-data-collected"])
            cover.start()
            began = time.process_time()
            failed = self.run_tests([item])
            took = time.process_time() - began
            cover.stop()
            data = cover.get_data()
            lines = {
                str(Path(file).relative_to(ROOT)): sorted(data.lines(file))
                for file in data.measured_files()
            }
            return {"seconds": round(took, 3), "failed": bool(failed), "lines": lines}

        jobs = ((lambda item=item: work(item), 600) for item in new)
        for number, answer in run_in_forks(jobs, self.options.jobs):
            answer = answer or {"seconds": 300, "failed": True, "lines": {}}
            name = new[number].nodeid
            files = [name.partition("::")[0], *answer["lines"]]
            answer["of"] = {path: digest(path) for path in files}
            self.state.add(test=name, **answer)
            if answer["failed"]:
                print("fails without a change:", new[number].nodeid, flush=True)

    def try_mutants(self):
        """Try what is not known yet."""
        known = {
            name: self.state.tests[name]
            for name in self.items
            if re.search(self.options.tests, name)
            and not self.state.tests[name]["failed"]
        }
        # Of each test, the least is what measuring it takes.
        least = min(test["seconds"] for test in self.state.tests.values())
        self.seconds = {name: t["seconds"] - least for name, t in known.items()}
        self.size = {n: sum(map(len, t["lines"].values())) for n, t in known.items()}
        self.reaching = defaultdict(set)  # the tests of each line
        for name, test in known.items():
            for path, lines in test["lines"].items():
                for line in lines:
                    self.reaching[path, line].add(name)
        self.kills = defaultdict(Counter)  # of each function: which tests notice
        reasons, wanted = Reasons(), []
        began, counts = time.monotonic(), Counter()
        for m in (m for path in self.options.paths for m in mutants_of(path)):
            result = self.state.mutants.get(m.key, {"status": "new", "by": None})
            self.kills[m.path, m.function][result["by"]] += 1
            once_more = self.options.again and result["status"] != "killed"
            if result["status"] == "new" or (once_more and m not in reasons):
                wanted.append(m)
        print(len(wanted), "to be tried", flush=True)
        for number, answer in run_in_forks(map(self.job, wanted), self.options.jobs):
            m = wanted[number]
            # What takes too long, or all memory, is noticed.
            answer = answer or {"status": "killed", "by": "a limit"}
            self.kills[m.path, m.function][answer["by"]] += 1
            self.state.add(mutant=m.key, **answer)
            counts[answer["status"]] += 1
            if answer["status"] != "killed":
                print(f"{time.monotonic() - began:.0f} s", dict(counts), m.key)
                print(*m.diff(), sep="\n", flush=True)

    def job(self, mutant):
        """Return how to try a mutant, and the most seconds that takes."""
        found = set()
        for lines in (mutant.lines, range(mutant.first + 1, mutant.last + 1)):
            for line in lines if not found else ():
                found |= self.reaching[mutant.path, line]
        kills, seconds = self.kills[mutant.path, mutant.function], self.seconds
        cost = {n: (seconds[n] + 0.02) * self.size[n] / (kills[n] + 0.1) for n in found}
        cases, order = Counter(), {}
        for name in sorted(found, key=cost.get):  # other cases of a test later
            cases[name.partition("[")[0]] += 1
            order[name] = cost[name] * cases[name.partition("[")[0]]
        chosen, total = [], 0.0
        for name in sorted(found, key=order.get):
            if not chosen or total + seconds[name] <= self.options.budget:
                chosen.append(self.items[name])
                total += seconds[name]

        def work():
            try:
                self.apply(mutant)
            except (ValueError, SyntaxError, LookupError) as error:
                return {"status": f"not applied: {error}", "by": None}
            if by := self.run_tests(chosen):
                return {"status": "killed", "by": by}
            left = len(found) - len(chosen)
            return {"status": "survived", "by": None, "left": left}

        return work, 60 + 20 * total

    def apply(self, mutant):
        """Give the live function the code of the mutant."""
        live = self.functions[str(ROOT / mutant.path), mutant.function]
        starts = range(mutant.first, mutant.last + 1)
        live = [f for f in live if f.__code__.co_firstlineno in starts]
        if not live:
            raise LookupError("no such function")
        for f in live:
            new = mutant.compiled(f.__globals__)
            f.__code__, f.__defaults__ = new.__code__, new.__defaults__
            f.__kwdefaults__ = new.__kwdefaults__


class Reasons:
    """Why nobody can notice a change, where `mutants.txt` says so."""

    def __init__(self):
        self.known = []
        for line in REASONS.read_text().splitlines():
            if line.startswith("  "):
                where, _, text = line.strip().partition(": ")
                self.known.append((f"skparisk/{where}", text))

    def __contains__(self, mutant):
        where, diff = f"{mutant.path}:{mutant.function}", mutant.diff()
        changed = [line for line in diff if line[0] == "+"] or diff
        return any(
            fnmatch.fnmatchcase(where, pattern) and (text == "*" or text in line)
            for pattern, text in self.known
            for line in changed
        )


def show(paths, state):
    """Print what no test noticed, and how many were, of each file."""
    reasons, total, table = Reasons(), Counter(), []
    for path in paths:
        counts = Counter()
        for m in mutants_of(path):
            status = state.mutants.get(m.key, {"status": "not run"})["status"]
            if status not in ("killed", "not run"):
                if m in reasons:
                    status = "equivalent"
                else:
                    print(f"{m.key}, line {m.lines.start}", *m.diff(), "", sep="\n")
            counts[status] += 1
        table.append(f"{path:42} {sum(counts.values()):5} {dict(counts)}")
        total += counts
    share = total["killed"] / max(1, sum(total.values()) - total["not run"])
    print(*table, dict(total), f"{share:.1%} killed", sep="\n")
    return share < 0.9


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("patterns", nargs="*", help="files; default: all of mutmut")
    parser.add_argument("--state", default="mutants.jsonl")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--budget", type=float, default=5.0, help="seconds of tests")
    parser.add_argument("--tests", default="", help="regex of names; default: all")
    parser.add_argument("--again", action="store_true", help="survivors, too")
    parser.add_argument("--show", action="store_true", help="survivors; try nothing")
    options = parser.parse_args()
    os.chdir(ROOT)
    meant = [str(p) for p in config().only_mutate]
    files = sorted(str(p.relative_to(ROOT)) for p in (ROOT / "skparisk").rglob("*.py"))
    files = [f for f in files if any(fnmatch.fnmatch(f, p) for p in meant)]
    patterns = options.patterns or meant
    options.all = [str(ROOT / f) for f in files]
    options.paths = [f for p in patterns for f in files if fnmatch.fnmatch(f, p)]
    if not options.show:
        for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
            os.environ[name] = "1"  # forks and threads do not go together
        args = [*config().pytest_add_cli_args, "--tb=native", "-p", "no:faulthandler"]
        args += config().pytest_add_cli_args_test_selection
        # With the examples of the docstrings.
        pytest.main([*args, *files], plugins=[Trial(options, State(options.state))])
    return show(options.paths, State(options.state))


if __name__ == "__main__":
    sys.exit(main())
