"use strict";
// A click on a header sorts the rows by its column, and the next click reverses the order. Empty cells stay at the end.
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
// A button that copies a command. If the browser does not allow access to the clipboard, the command is selected.
for (const box of document.querySelectorAll(".command")) {
  const button = Object.assign(document.createElement("button"), { type: "button", textContent: "Copy" });
  button.setAttribute("aria-label", "Copy this command");
  button.addEventListener("click", async () => {
    const code = box.querySelector("code");
    try {
      await navigator.clipboard.writeText(code.textContent);
      button.textContent = "Copied";
    } catch {
      getSelection().selectAllChildren(code);
      button.textContent = "Selected";
    }
    setTimeout(() => { button.textContent = "Copy"; }, 2000);
  });
  box.append(button);
}
