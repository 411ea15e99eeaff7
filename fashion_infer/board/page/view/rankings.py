"""The page of the ranking: where one stands, how the times came down, and everybody in order."""

from typing import List, Optional

from markupsafe import Markup

from ...store import ranking
from ...store.models import Class, Person
from ...store.people import sees_all
from ...store.ranking import Key, key_of
from ...store.types import now
from ..responses import engine
from ..standing import Standing
from . import chart, values
from .words import milliseconds


def gather(of_class: Class, person: Person, standing: Standing, address: str) -> values.Ranking:
    """The page's values.

    Parameters
    ----------
    of_class, person
        Who looks, and at what.
    standing
        The class's, the same for all.
    address
        Of the board, for the command that hands in the first kernel.
    """
    own = key_of(person)
    cudnn = of_class.cudnn_ms
    places = standing.places
    mine = next((place for place in places if place.key == own), None)
    counted = f"{len(places)} ranked" if places else "No times yet"
    moment = now()
    passed = of_class.deadline is not None and of_class.deadline < moment
    basis = "Sum of the layers' Op Times, the best submission of each counts; who was first wins a tie."
    if places and places[0].final:
        basis = "Final: medians of five runs on fresh seeds come first. " + basis
    plots = _plots(of_class, standing, own)
    return values.Ranking(
        of_class.edition, of_class.backend, of_class.deadline, "Closed" if passed else "Open until", basis,
        _figures(places, mine, standing, cudnn), plots, _words(standing, own, cudnn) if plots else "",
        counted, "cuDNN" if cudnn else "", _rows(standing, sees_all(person), own, cudnn), address,
    )  # fmt: skip


def _figures(places, mine: Optional[ranking.Place], standing: Standing, cudnn: Optional[float]) -> List[values.Figure]:
    found = []
    if mine is not None:
        found.append(values.Figure("Your rank", str(mine.place), f"of {len(places)}", True))
        found.append(values.Figure("Your best", milliseconds(mine.op_ms), "ms", True))
    if places:
        found.append(values.Figure("Best of the class", milliseconds(places[0].op_ms), "ms"))
    if cudnn:
        found.append(values.Figure("cuDNN", milliseconds(cudnn), "ms"))
    if standing.limit_ms:
        found.append(values.Figure("Hardware's limit", milliseconds(standing.limit_ms), "ms"))
    return found if places else []


def _rows(standing: Standing, names: bool, own: Key, cudnn: Optional[float]) -> List[Markup]:
    """The table's rows. Those of others are the same for every student: drawn once for each standing."""
    draw = engine().get_template("rank.html").render
    rows = []
    for place in standing.places:
        mine = place.key == own
        shared = not mine and not names
        text = standing.rows.get(place.place) if shared else None
        if text is None:
            real = standing.names.get(place.key, "") if names else ""
            one = values.RankRow(
                place.place, place.name, real if real != place.name else "", mine, place.op_ms,
                place.op_ms / cudnn if cudnn else None, place.submitted_at,
            )  # fmt: skip
            text = draw(row=one)
            if shared:
                standing.rows[place.place] = text
        rows.append(Markup(text))  # a template's, which escaped all that was filled in
    return rows


def _plots(of_class: Class, standing: Standing, own: Key) -> List[chart.Plot]:
    series = [
        chart.Series("middle", "median", standing.middle, dots=False),
        chart.Series("best", "best", standing.best),
        chart.Series("you", "you", standing.curves.get(own, [])),
    ]
    lines = [chart.Line("cuDNN", of_class.cudnn_ms)] if of_class.cudnn_ms else []
    lines += [chart.Line("limit", standing.limit_ms)] if standing.limit_ms else []
    deadline = of_class.deadline.timestamp() if of_class.deadline else None
    drawn = [chart.draw(size, series, lines, now().timestamp(), deadline) for size in chart.SIZES]
    return [plot for plot in drawn if plot is not None]


def _words(standing: Standing, own: Key, cudnn: Optional[float]) -> str:
    """The plot for those who do not see it."""

    def fell(who: str, points: List[chart.Point]) -> str:
        return f"{who} came down from {milliseconds(points[0][1])} to {milliseconds(points[-1][1])} ms. "

    text = fell("The best of the class", standing.best) if standing.best else ""
    mine = standing.curves.get(own)
    text += fell("Your best", mine) if mine else ""
    text += f"cuDNN takes {milliseconds(cudnn)} ms. " if cudnn else ""
    limit = standing.limit_ms
    return text + (f"Writing the output alone takes {milliseconds(limit)} ms." if limit else "")
