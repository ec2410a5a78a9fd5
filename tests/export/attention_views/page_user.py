"""A user of the attention page, and what the page must then show."""

import numpy as np
import pytest
from selenium.webdriver import ActionChains

LINES = """
return [...document.querySelectorAll("#lines path")].map((path) => [
  Number(path.parentNode.dataset.head),
  Number(path.getAttribute("stroke-opacity")),
  path.getAttribute("d"),
]);
"""
CELLS = """
const frame = document.querySelector("#matrix .frame");
return [
  ["x", "y", "width", "height"].map((each) => frame.getAttribute(each)),
  [...document.querySelectorAll("#matrix .cell")].map((path) => [
    Number(path.getAttribute("fill-opacity")),
    path.getAttribute("d"),
  ]),
];
"""


class Page:
    """What a user does with the page, and sees."""

    def __init__(self, driver):
        self.driver = driver

    def all(self, selector):
        return self.driver.find_elements("css selector", selector)

    def texts(self, selector):
        return [each.get_property("textContent") for each in self.all(selector)]

    def text(self, selector):
        """Returns its text without the isolates around words."""
        (text,) = self.texts(selector)
        return text.replace("\u2068", "").replace("\u2069", "")

    def choose(self, group, value):
        [button] = self.all(f"#{group} label:has(input[value='{value}'])")
        button.click()

    def head(self, number):
        return self.all("#heads .head")[number]

    def point(self, side, index):
        word = self.all(f"#{side} .word")[index]
        ActionChains(self.driver).move_to_element(word).perform()

    def press(self, *keys):
        ActionChains(self.driver).send_keys(*keys).perform()

    def focused(self):
        """Returns (column, number) of the word that has the focus."""
        return tuple(
            self.driver.execute_script(
                "const list = document.activeElement.closest('ol');"
                "return [list.id, [...list.querySelectorAll('.word')]"
                ".indexOf(document.activeElement)];"
            )
        )

    def lines(self):
        """Returns a dict: (head, row, column) to the opacity of the line."""
        found = {}
        for head, opacity, path in self.driver.execute_script(LINES):
            for curve in path.split("M")[1:]:
                start, end = curve.split("C")[0], curve.split(" ")[-1]
                row, column = float(start.split(" ")[1]), float(end)
                place = (head, int(row), int(column))
                assert place not in found
                found[place] = opacity
        return found

    def cells(self):
        """Returns the opacities of the matrix's cells [Q, M]."""
        frame, paths = self.driver.execute_script(CELLS)
        left, top, width, height = map(float, frame)
        found = np.zeros((len(self.all("#from li")), len(self.all("#to li"))))
        size = width / found.shape[1]
        assert height == pytest.approx(size * found.shape[0])
        for opacity, path in paths:
            for square in path.split("M")[1:]:
                x, y = map(float, square.split("h")[0].split(" "))
                place = (round((y - top) / size), round((x - left) / size))
                found[place] = opacity
        return found


def check_lines(page, weights, heads=None, row=None, column=None):
    """Checks which lines are drawn, and how strong, of weights [H, Q, M]."""
    alone = row is not None or column is not None
    # Of one word the root is drawn; weights are rounded on the page.
    least, power = (0.01, 2) if alone else (0.02, 1)
    found = page.lines()
    for place, weight in np.ndenumerate(weights):
        head, of_row, of_column = place
        wanted = (
            (heads is None or head in heads)
            and row in (None, of_row)
            and column in (None, of_column)
        )
        if wanted and weight > least + 5e-4:
            shown = found.pop(place) ** power
            assert shown == pytest.approx(weight, abs=6e-3), place
        elif wanted and weight > least - 5e-4:
            found.pop(place, None)
    assert found == {}


def check_cells(page, weights):
    """Checks the matrix, of weights [H, Q, M]; its shades are roots."""
    mean = weights.mean(axis=0)
    np.testing.assert_allclose(page.cells() ** 2, mean, atol=0.012)
