"""A real browser: Debian's Chromium, driven by Selenium."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from selenium import webdriver
from selenium.common.exceptions import (
    ElementClickInterceptedException,
    JavascriptException,
    NoSuchElementException,
    StaleElementReferenceException,
)
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

from bench.console import CHROMIUM_OPTIONS

if TYPE_CHECKING:
    from selenium.webdriver.remote.webelement import WebElement

T = TypeVar("T")
SECONDS = 60.0
_GONE = (ElementClickInterceptedException, NoSuchElementException, StaleElementReferenceException, JavascriptException)


def missing() -> str:
    """Return what this machine lacks for these tests."""
    names = [name for name in ("chromium", "chromedriver") if shutil.which(name) is None]
    return f"{' and '.join(names)} not installed (apt install chromium chromium-driver)" if names else ""


class Browser:
    """A browser, with the words in which tests speak of a page."""

    def __init__(self, driver: Any, downloads: Path) -> None:
        self.driver, self.downloads = driver, downloads

    def until(self, condition: Callable[[], T]) -> T:
        """Return the first true result of a condition."""
        wait: WebDriverWait[Any] = WebDriverWait(
            self.driver, SECONDS, poll_frequency=0.05, ignored_exceptions=list(_GONE)
        )
        return wait.until(lambda _: condition())

    def find(self, selector: str, text: str | None = None) -> WebElement:
        """Return the visible element of a selector, with a text if one is given, once it is there."""

        def found() -> WebElement | None:
            for element in self.driver.find_elements(By.CSS_SELECTOR, selector):
                if element.is_displayed() and text in {None, element.text}:
                    return element
            return None

        element = self.until(found)
        assert element is not None
        return element

    def click(self, selector: str, text: str | None = None) -> None:
        """Click an element, once it is there."""

        def clicked() -> bool:
            self.find(selector, text).click()
            return True

        self.until(clicked)

    def text(self, selector: str = "main") -> str:
        """Return the visible text of an element."""
        return self.driver.find_element(By.CSS_SELECTOR, selector).text

    def shows(self, text: str, selector: str = "main") -> bool:
        """Wait until an element has a text."""
        return self.until(lambda: text in self.text(selector))

    def script(self, text: str, *arguments: Any) -> Any:
        """Return the result of a script of the page."""
        return self.driver.execute_script(text, *arguments)

    def log(self) -> list[str]:
        """Return what the browser complained of since the last call, but for refused requests."""
        return [
            row["message"] for row in self.driver.get_log("browser") if "Failed to load resource" not in row["message"]
        ]

    @contextmanager
    def tab(self, address: str = "about:blank") -> Iterator[None]:
        """Open another tab, and close it at the end."""
        first = self.driver.current_window_handle
        self.driver.switch_to.new_window("tab")
        try:
            self.driver.get(address)
            yield
        finally:
            self.driver.close()
            self.driver.switch_to.window(first)

    def other_tab(self, number: int) -> None:
        """Switch to a tab."""
        self.driver.switch_to.window(self.driver.window_handles[number])

    def size(self, width: int, height: int) -> None:
        """Set the size of the window."""
        self.driver.set_window_size(width, height)

    def dark(self, *, on: bool) -> None:
        """Choose the system's dark setting."""
        feature = {"name": "prefers-color-scheme", "value": "dark" if on else "light"}
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})


@contextmanager
def opened(folder: Path) -> Generator[Browser]:
    """Start a browser with a profile of its own."""
    downloads = folder / "downloads"
    downloads.mkdir(parents=True)
    options = webdriver.ChromeOptions()
    for option in (*CHROMIUM_OPTIONS, "--window-size=1280,860", f"--user-data-dir={folder / 'profile'}"):
        options.add_argument(option)
    options.binary_location = shutil.which("chromium") or ""
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    options.add_experimental_option(
        "prefs", {"download.default_directory": str(downloads), "download.prompt_for_download": False}
    )
    driver = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
    driver.set_script_timeout(SECONDS)
    try:
        yield Browser(driver, downloads)
    finally:
        driver.quit()
