"use strict";
// A click on a header sorts by its column, the next one the other way round; empty cells stay at the end.
for (const table of document.querySelectorAll("table.sortable")) {
  const headers = [...table.tHead.rows[0].cells];
  headers.forEach((header, column) => header.querySelector("button").addEventListener("click", () => {
    const down = header.getAttribute("aria-sort") === "ascending";
    for (const other of headers) other.setAttribute("aria-sort", "none");
    header.setAttribute("aria-sort", down ? "descending" : "ascending");
    const compare = (a, b) => {
      const [x, y] = [a.cells[column], b.cells[column]];
      if (!x.textContent || !y.textContent) return !x.textContent - !y.textContent;
      const byNumber = x.dataset.value !== undefined && y.dataset.value !== undefined;
      const order = byNumber ? x.dataset.value - y.dataset.value : x.textContent.localeCompare(y.textContent);
      return down ? -order : order;
    };
    table.tBodies[0].append(...[...table.tBodies[0].rows].sort(compare));
  }));
}
