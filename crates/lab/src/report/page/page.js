// The whole page: charts, tables, and changes for the width and for print.
function sortable(table) {
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => head.querySelector("button").addEventListener("click", () => {
    const up = head.getAttribute("aria-sort") !== "ascending";
    heads.forEach((other) => other.removeAttribute("aria-sort"));
    head.setAttribute("aria-sort", up ? "ascending" : "descending");
    const key = (row) => Number(row.cells[column].dataset.value);
    const rows = [...table.tBodies[0].rows].sort((a, b) => (up ? 1 : -1) * (key(a) - key(b)));
    table.tBodies[0].append(...rows);
  }));
}

width = measureWidth();
const CHARTS = { figures, latencies, timeline };
for (const figure of document.querySelectorAll("figure[data-chart]"))
  CHARTS[figure.dataset.chart](figure, data.groups[Number(figure.dataset.group)]);
document.querySelectorAll("table.sortable").forEach(sortable);
addEventListener("resize", () => requestAnimationFrame(() => {
  const now = measureWidth();
  if (now === width) return;
  width = now;
  redraws.forEach((redraw) => redraw());
}));
// Collapsed elements are expanded for print.
addEventListener("beforeprint", () => document.querySelectorAll("details:not(.screen)").forEach((details) => { details.open = true; }));
document.documentElement.dataset.ready = "true";
