"""What keeps the core closed: who makes claims, draws noise and opens records."""

import ast
import copy
import dataclasses
import io
import math
import pickle
import re
import sys
import threading
import tokenize
import warnings
from contextlib import nullcontext
from dataclasses import replace
from functools import cache, partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from counts import rejects_counts
from scipy import sparse
from scipy.stats import binomtest

import skparisk
from skparisk import (
    Certificate,
    FiledCertificate,
    IncompatibleError,
    PrivacyLeakWarning,
    SensitivitySampler,
    TableReference,
    core,
)
from skparisk.core import (
    Assumption,
    Exchangeable,
    Gaussian,
    Laplace,
    Leak,
    NoiseShape,
    Plan,
    SampledPairs,
    Target,
    Terms,
    as_certificate,
    compose_basic,
    compose_exact,
    find_noise,
    seal,
)
from skparisk.core.calibrate import find_known
from skparisk.core.exact import noise_source
from skparisk.core.noise import AdditiveNoise, Constant
from skparisk.core.pairs import norms_of_pairs
from skparisk.core.release import answered, release
from skparisk.ledger import OPEN, PrivacyLedger
from skparisk.mechanisms import LaplaceMechanism
from skparisk.queries import MeanQuery, SumQuery

ROOT = Path(skparisk.__file__).parent
MOST_LINES = 3570
CORE = sorted((ROOT / "core").glob("*.py"))
# Besides the core, these make claims of another kind, each by `mint`.
MINTING = {
    "_matrix_noise.py",
    "audit/_limits.py",
    "mechanisms/_discrete.py",
    "mechanisms/_exponential.py",
    "mechanisms/_additive.py",
    "metrics.py",
    "model_selection/_exponential.py",
    "reference/_learning.py",
}


@cache
def tree_of(path):
    """Return the syntax tree of a file."""
    return ast.parse(path.read_text("utf-8"))


def trees(paths):
    """Yield the files, from the package, with their syntax trees."""
    for path in paths:
        yield path.relative_to(ROOT).as_posix(), tree_of(path)


@cache
def named(tree):
    """Return all names that a file uses, imports or looks up."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            found.add(node.id)
        elif isinstance(node, ast.Attribute):
            found.add(node.attr)
        elif isinstance(node, ast.alias):
            found.update(node.name.split("."))
    return found


def imported(tree):
    """Return the modules that a file imports, anywhere in it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module


def users(name):
    """Return the files of the package that name something."""
    return {path for path, tree in trees(files_with(name)) if name in named(tree)}


def files_with(text):
    """Yield the files of the package that have a text; of others no tree is needed."""
    yield from (path for path in ROOT.rglob("*.py") if text in path.read_text("utf-8"))


def test_the_core_imports_nothing_else_of_the_package():
    for path, tree in trees(CORE):
        ours = {name for name in imported(tree) if name.startswith("skparisk")}
        assert all(name.startswith("skparisk.core") for name in ours), path
        calls = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        # Its own parts are found by name in `__init__` alone.
        assert path == "core/__init__.py" or "import_module" not in calls, path


@pytest.mark.slow
def test_one_file_reads_the_random_source_of_the_system():
    """`uuid4` numbers ledgers, and makes no noise."""
    assert users("urandom") == {"core/exact.py"}
    for name in ("secrets", "SystemRandom", "token_bytes", "getrandom"):
        assert not users(name), name
    for path, tree in trees(ROOT.rglob("*.py")):
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                unseeded = node.func.attr == "default_rng" and not node.args
                assert not unseeded, path


@pytest.mark.slow
def test_one_file_opens_sealed_records():
    assert users("open_sealed") == {"core/release.py"}
    opened = {
        path
        for path, tree in trees(ROOT.rglob("*.py"))
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and node.attr == "_sealed"
    }
    assert opened == {"core/sealed.py"}


def test_only_those_who_are_listed_make_claims():
    makers = {path for path in users("mint") if not path.startswith("core/")}
    assert makers == MINTING
    # What takes a doubt away, or keeps no evidence, is for one caller each.
    for name, caller in (
        ("over_private_records", "sensitivity/_sampler.py"),
        ("remade", "core/compose.py"),
        ("claim_with_audit", "audit/_audit.py"),
    ):
        assert users(name) - {"core/claim.py"} == {caller}
    called = {
        path
        for path, tree in trees(files_with("Certificate("))
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and getattr(node.func, "id", getattr(node.func, "attr", "")) == "Certificate"
    }
    assert called == {"core/claim.py"}


def test_the_page_names_all_that_is_trusted():
    """Each file of the core, and each that makes claims besides."""
    page = (ROOT.parent / "docs" / "theory" / "core.rst").read_text("utf-8")
    trusted = {*(path.name for path in CORE), *MINTING}
    named = {*re.findall(r"``([\w/]+\.py)``", page)}
    assert trusted - {"__init__.py"} <= named
    for name in named - trusted:
        assert (ROOT / name).exists() or (ROOT.parent / name).exists(), name
    assert len(page.split()) <= 1200


def test_the_page_names_all_who_read_private_records():
    """Those that `release` lists, and no others, in one paragraph."""
    page = (ROOT.parent / "docs" / "theory" / "core.rst").read_text("utf-8")
    (told,) = (part for part in page.split("\n\n") if "plain arrays" in part)
    listed = re.findall(r"``([\w/]+\.py)``", sys.modules[release.__module__].__doc__)
    assert {*re.findall(r"``([\w/]+\.py)``", told)} - {"release.py"} == {*listed}
    assert all((ROOT / name).exists() for name in listed)


def test_a_certificate_that_was_made_by_hand_is_an_error():
    made = as_certificate((0.5, 1e-6))
    for attempt in (
        lambda: Certificate(0.1),
        lambda: Certificate(0.1, mint=object()),
        lambda: dataclasses.replace(made, epsilon=0.1),
    ):
        with pytest.raises(TypeError, match="made by a release or by composition"):
            attempt()
    with pytest.raises(dataclasses.FrozenInstanceError):
        made.epsilon = 0.1
    assert pickle.loads(pickle.dumps(made)) == made == copy.deepcopy(made)


def test_a_certificate_is_made_once():
    made = as_certificate(0.5)
    with pytest.raises(TypeError, match="made by a release"):
        made.__init__(epsilon=0.001)
    assert made.epsilon == 0.5


def test_a_query_that_panics_says_nothing():
    """What extensions in other languages raise is no Exception."""

    class Panic(BaseException):
        pass

    def panics(X, y):
        raise Panic("of the record 17")

    def interrupts(X, y):
        raise KeyboardInterrupt

    with pytest.raises(ValueError, match="has no answer on the private data") as caught:
        answered(panics, np.ones((3, 1)), None)
    assert "record" not in str(caught.value)
    with pytest.raises(KeyboardInterrupt):
        answered(interrupts, np.ones((3, 1)), None)


def test_filters_of_other_threads_neither_show_warnings_nor_make_errors_of_them():
    """They are those of the whole process, and threads change them at any time."""
    asked = []

    def meanwhile(action):
        thread = threading.Thread(target=warnings.simplefilter, args=(action,))
        thread.start()
        thread.join()

    def warns(X, y=None, n_errors=2):
        asked.append(X)
        meanwhile("error" if len(asked) <= n_errors else "always")
        warnings.warn(f"the largest is {X.max()}", stacklevel=1)
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            warnings.warn("so it is", stacklevel=1)
        return X.sum()

    with warnings.catch_warnings(record=True) as shown:
        assert answered(warns, np.ones((3, 1)), None) == 3
        with pytest.raises(ValueError, match="has no answer on the private data"):
            answered(partial(warns, n_errors=math.inf), np.ones((3, 1)), None)
        warnings.simplefilter("always")
        warnings.warn("aloud", stacklevel=1)
    assert [str(each.message) for each in shown] == ["aloud"]


def test_filters_of_the_user_stay_as_they_are():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ImportWarning)
        before = {*map(repr, warnings.filters)}
        answered(lambda X, y: X.sum(), np.ones((3, 1)), None)
        assert before <= {*map(repr, warnings.filters)}
        warnings.resetwarnings()
        answered(lambda X, y: X.sum(), np.ones((3, 1)), None)
        assert len(warnings.filters) == 1


@pytest.mark.slow
@pytest.mark.parametrize("container", [np.asarray, pd.DataFrame, sparse.csr_array])
def test_who_comes_first_in_a_private_table_is_a_secret(container):
    """People sort tables, and sampled databases are in a random order."""

    class Ranked(SumQuery):
        def rows(self, X, y):
            return np.asarray(X, dtype=float)

    X, y = np.arange(8.0)[:, None], np.arange(8.0)

    def first(X, y):
        assert (np.asarray(X.todense() if sparse.issparse(X) else X)[:, 0] == y).all()
        return y[:1]

    def asked(epsilon, **how):
        # Of a step that is far less than what places differ by.
        noise = AdditiveNoise(Laplace(), int(epsilon < np.inf), -60, 1)
        plan = Plan(first, lambda _: (noise, claim), claim := as_certificate(epsilon))
        numbers, _ = release(plan, seal(container(X), y), OPEN, **how)
        return round(numbers[0])

    assert not rejects_counts([asked(1.0) for _ in range(2000)], np.ones(8))
    with pytest.warns(PrivacyLeakWarning, match="noise_random_state"):
        assert len({asked(1.0, noise_random_state=7) for _ in range(3)}) == 1
    assert [asked(np.inf) for _ in range(9)] == [0] * 9
    # Sums do not look at the order, and need no copy in another one.
    assert Ranked().is_unordered is False
    assert MeanQuery().is_unordered


def test_a_filed_certificate_is_neither_charged_nor_composed():
    """It prints, and is checked."""
    made = LaplaceMechanism(1.0, 0.5).as_certificate()
    filed = FiledCertificate.from_dict(made.to_dict())
    assert str(filed) == str(made)
    ledger = PrivacyLedger(1.0)
    for use in (compose_basic, ledger.spend):
        with pytest.raises(ValueError, match="a release must be a certificate"):
            use([filed] if use is compose_basic else filed)
    assert ledger.spent.epsilon == 0
    assert not hasattr(filed, "weaken")


class Disguised:
    """Says that a filed certificate is what a release guarantees."""

    def as_certificate(self):
        return FiledCertificate(0.0)


def test_who_has_as_certificate_must_return_one_that_was_made():
    with pytest.raises(ValueError, match="must return a Certificate"):
        compose_basic([Disguised()])


def test_others_can_only_take_away():
    made = LaplaceMechanism(1.0, 0.5).as_certificate()
    weaker = made.weaken(epsilon=0.2, leaks=["chosen"])
    assert (weaker.epsilon, weaker.loss) == (0.5, None)
    assert made.assumptions <= weaker.assumptions
    assert not weaker.private
    assert weaker.weaken().leaks == weaker.leaks
    with pytest.raises(ValueError, match="is not a valid Leak"):
        made.weaken(leaks=["anything"])


def test_sealed_records_show_nothing():
    for look in [
        pickle.dumps,
        copy.copy,
        copy.deepcopy,
        np.asarray,
        list,
        len,
        lambda sealed: sealed[0],
        lambda sealed: sealed.X,
        vars,
    ]:
        sealed = seal(np.array([[1234.5]]), np.array([6789.0]))
        with pytest.raises((TypeError, AttributeError)):
            look(sealed)
        assert f"{sealed!r} {sealed} {sealed.n_records}" == "Sealed() Sealed() 1"


def test_outputs_that_never_moved_are_hidden_as_all_others():
    """A shape of the caller's may mix them into others, where they may move as well."""
    rng = np.random.default_rng(0)
    n_cells = 60

    def differences(n):
        """Return a total, which every record moves, and cells, of which one moves."""
        cells = np.eye(n_cells)[rng.zipf(1.3, n) % n_cells]
        return np.column_stack([np.ones(n), cells])

    factor = np.diag([1.0] + [0.1] * n_cells)
    factor[0, 1:] = 0.9
    shape = NoiseShape(factor)
    sampled = differences(199)
    still = np.flatnonzero(~sampled.any(axis=0))
    assert still.size
    pairs = SampledPairs(
        sampled,
        None,
        np.zeros(n_cells + 1),
        constant=Constant(still, np.full(still.size, 7.0)),
    )
    terms = Terms(Target(1.0, 0.05), Laplace(), shape, Exchangeable(), 199)
    noise = find_noise(pairs, terms).noise
    assert (noise.deviations()[still] == 0).all()
    drawn = noise.prepare(np.arange(n_cells + 1.0))(noise_source(0))
    assert (drawn[still] == 7.0).all()
    # What is hidden is a function of all outputs, as the calibration has it.
    exact, _ = noise.shape.whiten_exactly(np.eye(n_cells + 1))
    assert (exact[:, still] != 0).any()
    fresh = norms_of_pairs(
        SampledPairs(differences(2000), None, np.zeros(n_cells + 1)), shape, Laplace()
    )
    beyond = int(np.sum(fresh > noise.noise_scale * (1 + 1e-6)))
    assert binomtest(beyond, 2000, 0.05, "greater").pvalue > 1e-3


def test_composition_does_not_spend_what_the_margin_pays_for():
    """Noise that is larger for what a table is off by is no smaller loss."""
    pairs = SampledPairs(
        np.random.default_rng(0).normal(size=(999, 1)), None, np.zeros(1)
    )
    pairs.margin = lambda *given: 1.5
    target = Target(1.0, 0.05, 1e-5)
    terms = Terms(target, Gaussian(), "isotropic", Exchangeable(), 999)
    found = find_noise(pairs, terms)
    claim = found.certify(n_records=10, relation="replace-one", reference=None)
    assert claim.evidence.margin == 1.5
    assert claim.noise_epsilon < claim.loss.shift / 1.4
    together = compose_exact([claim], delta=1e-5)
    assert together.epsilon == pytest.approx(1.0, rel=1e-3)
    assert claim.advantage.quantile > Gaussian().advantage(
        [claim.noise_epsilon], n_outputs=1, steps=2**40
    )


def test_an_answer_of_several_dimensions_is_one_release():
    """Its rows are not those of different people."""

    def query(X, y=None):
        return np.full((1, 50, 1), X.sum())

    found = []

    def noise(n_outputs):
        found.append(n_outputs)
        mechanism = LaplaceMechanism(1.0, 0.5, n_outputs)
        return mechanism.noise, mechanism.as_certificate()

    plan = Plan(query, noise, at_most=noise(1)[1])
    with PrivacyLedger(1.0) as ledger:
        released, _ = release(plan, seal(np.ones((3, 1))), OPEN)
    assert found[-1] == 50
    assert released.shape == (50,)
    assert ledger.spent.epsilon == 0.5


def test_a_plan_has_the_noise_of_its_certificate():
    """With next to no noise, another claim is refused before anything is charged."""
    known = Target(0.5, 0.0, randomness="explicit")
    _, claim = find_known(1.0, known, n_records=3)
    weaker = LaplaceMechanism(1e-9, 0.5).noise
    plan = Plan(lambda X, y: X[0], lambda n_outputs: (weaker, claim), claim)
    with (
        PrivacyLedger(1.0) as ledger,
        pytest.raises(ValueError, match="must be that of its certificate"),
    ):
        release(plan, seal(np.ones((3, 1))), OPEN)
    assert ledger.spent.n_releases == 0


def test_a_plan_is_for_the_records_and_the_noise_of_its_certificate():
    sampler = SensitivitySampler(MeanQuery(), n_records=9, n_pairs=19, gamma=0.2)
    X = np.random.default_rng(0).normal(size=(40, 1))
    sampler.set_params(reference=TableReference(X)).fit(X[:9])
    noise, claim = sampler.mechanism_, sampler.certificate_

    def charged(noise=noise, claim=claim, n_records=9, error=None, match=""):
        plan = Plan(lambda X, y: X[0], lambda n_outputs: (noise, claim), claim)
        private = seal(np.ones((n_records, 1)))
        refused = pytest.raises(error, match=match) if error else nullcontext()
        with PrivacyLedger(9.0) as ledger, refused:
            release(plan, private, OPEN)
        return ledger.spent.n_releases

    assert charged() == 1
    size = "databases of 9 records, got 8"
    assert charged(n_records=8, error=IncompatibleError, match=size) == 0
    none, same = AdditiveNoise(Laplace(), 0, 0, 1), as_certificate(claim.epsilon)
    above = "must have a scale above 0"
    assert charged(none, same, error=ValueError, match=above) == 0
    shaped = replace(noise, shape=NoiseShape(np.array([1e-9])))
    own = "must be that of its certificate"
    for other in (shaped, replace(noise, law=Gaussian())):
        assert charged(other, error=ValueError, match=own) == 0


def test_an_answer_that_is_interrupted_is_charged():
    mechanism = LaplaceMechanism(1.0, 0.5)
    claim = mechanism.as_certificate()

    def endless(X, y):
        raise KeyboardInterrupt

    plan = Plan(endless, lambda n_outputs: (mechanism.noise, claim), claim)
    with PrivacyLedger(1.0) as ledger, pytest.raises(KeyboardInterrupt):
        release(plan, seal(np.ones((3, 1))), OPEN)
    assert ledger.spent.epsilon == 0.5


def test_terms_are_for_as_many_neighbors_as_pairs_have():
    pairs = SampledPairs(np.ones((20, 1)), None, np.zeros(1), n_neighbors=2)
    terms = Terms(Target(1.0, 0.5), Laplace(), "isotropic", Exchangeable(), 10)
    with pytest.raises(ValueError, match="terms must be for 2 neighbors"):
        find_noise(pairs, terms)


def test_an_assumption_of_one_part_is_one_of_the_whole():
    """Also beside a part whose reference was private."""
    public = as_certificate((0.5, 0.0, 0.05))
    private = as_certificate((0.5, 0.0, 0.05)).weaken(leaks=[Leak.PRIVATE_REFERENCE])
    assert Assumption.PUBLIC_REFERENCE in public.assumptions
    together = compose_basic([public, private])
    assert Assumption.PUBLIC_REFERENCE in together.assumptions
    assert together.reference_is_private


def test_rules_of_others_are_refused():
    class Lucky(Exchangeable):
        def order_index(self, n_pairs, gamma):
            return 1

    with pytest.raises(ValueError, match="calibration must be a rule of core"):
        Terms(Target(1.0), Laplace(), "isotropic", Lucky(), 999)


def code_lines(path):
    """Return how many lines there are besides docstrings and comments."""
    text = path.read_text("utf-8")
    said = {
        line
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
        and ast.get_docstring(node, clean=False) is not None
        for line in range(node.body[0].lineno, node.body[0].end_lineno + 1)
    }
    ignored = (
        tokenize.COMMENT,
        tokenize.NL,
        tokenize.NEWLINE,
        tokenize.INDENT,
        tokenize.DEDENT,
        tokenize.ENDMARKER,
    )
    used = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in ignored:
            used.update(range(token.start[0], token.end[0] + 1))
    return len(used - said)


def test_the_core_has_what_it_exports():
    for name in core.__all__:
        assert getattr(core, name) is not None
    assert {*core.__all__} <= {*dir(core)}
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = core.nothing


def test_the_core_does_not_grow():
    assert len(CORE) <= 14
    assert sum(map(code_lines, CORE)) <= MOST_LINES
