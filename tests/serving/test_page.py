"""The page of `bat-tf serve` in a real browser; see "Tests" in the README."""

import os
from pathlib import Path

import pytest
import served

from bat_tf.cli.terminal import model_path
from bat_tf.serving.engine import Engine, Limits
from bat_tf.serving.server import Server

pytestmark = pytest.mark.slow

TEXT = (
    "Brand new Veloria bamboo cutting board, 2 pieces 👍🏽\n"
    "全新 Zorv 桌燈，暖白光，免運費\n"
    "<b>Soft cotton towel</b> by Veloria & co"
)


def visit(browser, server, **settings):
    """The page, and what the browser complains of."""
    page = browser.new_page(viewport={"width": 900, "height": 900}, **settings)
    complaints, asked = [], []
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(server.url)
    page.wait_for_load_state("networkidle")
    return page, complaints, asked


def press(page, text):
    page.fill("#input", text)
    page.click("#ask")
    page.wait_for_selector("#ask:enabled")


def picture(page, name):
    """Keeps a screenshot where `BAT_TF_SCREENSHOTS` says, for people to look at."""
    folder = os.environ.get("BAT_TF_SCREENSHOTS")
    if folder:
        page.screenshot(path=Path(folder) / f"{name}.png", full_page=True)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_keywords_are_coloured_in_place(browser, scheme):
    engine = Engine(model_path("product_pages"))
    with Server(engine, port=0) as server:
        page, complaints, asked = visit(browser, server, color_scheme=scheme)
        press(page, TEXT)
        assert page.inner_text("#text") == TEXT
        marks = page.locator("mark").all_inner_texts()
        assert "Veloria" in marks and "bamboo cutting board" in marks
        brand, product = (
            page.locator(f'mark[title^="{kind}"]').first
            for kind in ("brand", "product")
        )
        colour = "element => getComputedStyle(element).backgroundColor"
        assert brand.evaluate(colour) != product.evaluate(colour)
        assert page.locator("#rows tr").count() == len(marks)
        width = "element => element.getBoundingClientRect().width"
        assert page.locator(".fill").first.evaluate(width) > 100
        picture(page, f"page_keywords_{scheme}")
        assert all(url.startswith(server.url) or url == "data:," for url in asked)
        # An export from before the signature `metadata` is no reason to complain.
        assert [text for text in complaints if "400" not in text] == []
        page.close()


def test_labels_have_bars(browser):
    with Server(Engine(served.folder("news")), port=0) as server:
        page, complaints, _ = visit(browser, server)
        assert page.inner_text("#knows") == "knows energy, markets, weather"
        page.fill("#input", "oil and gas prices rose, shares fell")
        page.press("#input", "Control+Enter")
        page.wait_for_selector("#found:not([hidden])")
        assert page.locator("#rows tr").count() == page.locator(".fill").count() > 0
        assert page.is_hidden("#marked")
        picture(page, "page_labels")
        assert complaints == []
        page.close()


def test_what_goes_wrong_is_shown(browser):
    engine = Engine(served.folder("pages"), limits=Limits(text_characters=50))
    with Server(engine, port=0) as server:
        page, _, _ = visit(browser, server)
        press(page, "x" * 51)
        assert "may have 50 characters" in page.inner_text("#error")
        picture(page, "page_error")
        server.stop()
        press(page, "x")
        assert page.inner_text("#error") == "The server cannot be reached."
        page.close()


def test_a_narrow_screen(browser):
    with Server(Engine(served.folder("pages")), port=0) as server:
        page, _, _ = visit(browser, server)
        page.set_viewport_size({"width": 360, "height": 740})
        press(page, served.TEXTS[0] + " " + "w" * 200)
        wide = "() => document.documentElement.scrollWidth <= innerWidth"
        assert page.evaluate(wide)
        picture(page, "page_narrow")
        page.close()
