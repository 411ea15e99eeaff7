// What the theme's own script adds to a page, in a form that screen readers and keyboards can use.
(function () {
  function improve() {
    // A bar of buttons beside each piece of code is no landmark.
    document.querySelectorAll("nav.md-code__nav").forEach(function (bar) { bar.setAttribute("role", "presentation"); });
    // A box that scrolls sideways is reached by Tab and scrolled by the arrow keys.
    document.querySelectorAll(".md-typeset__scrollwrap").forEach(function (box) { box.tabIndex = 0; });
  }
  new MutationObserver(improve).observe(document.documentElement, { childList: true, subtree: true });
  improve();
})();
