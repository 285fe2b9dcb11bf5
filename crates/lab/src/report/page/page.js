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

// A table that is wider than its place says so, until its end has been seen.
function hinted(scroll) {
  const hint = document.createElement("p");
  hint.className = "hint more";
  hint.textContent = "The table goes on to the right: swipe or scroll. \u2192";
  scroll.before(hint);
  const look = () => {
    const rest = scroll.scrollWidth - scroll.clientWidth - scroll.scrollLeft;
    hint.hidden = scroll.scrollWidth <= scroll.clientWidth + 1;
    scroll.classList.toggle("goes-on", rest > 1);
  };
  scroll.addEventListener("scroll", look, { passive: true });
  new ResizeObserver(look).observe(scroll);
  // A table has no width before the element around it is opened.
  document.addEventListener("toggle", look, true);
  look();
}

width = measureWidth();
const CHARTS = { figures, latencies, timeline };
for (const figure of document.querySelectorAll("figure[data-chart]"))
  CHARTS[figure.dataset.chart](figure, data.groups[Number(figure.dataset.group)]);
document.querySelectorAll("table.sortable").forEach(sortable);
document.querySelectorAll(".scroll").forEach(hinted);
addEventListener("resize", () => requestAnimationFrame(() => {
  const now = measureWidth();
  if (now === width) return;
  width = now;
  redraws.forEach((redraw) => redraw());
}));
// Collapsed elements are expanded for print.
addEventListener("beforeprint", () => document.querySelectorAll("details:not(.screen)").forEach((details) => { details.open = true; }));
document.documentElement.dataset.ready = "true";
