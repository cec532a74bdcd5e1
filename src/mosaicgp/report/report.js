"use strict";
// Values under the pointer: the native title of a mark, shown at once.
const tip = document.getElementById("tip");
document.addEventListener("pointerover", (event) => {
  const mark = event.target.closest("svg.chart *");
  const title = mark && mark.querySelector(":scope > title");
  if (title) {
    mark.dataset.tip = title.textContent;
    title.remove(); // else the browser shows it too, later
  }
  const text = mark && mark.dataset.tip;
  tip.hidden = !text;
  if (text) tip.textContent = text;
});
document.addEventListener("pointermove", (event) => {
  if (tip.hidden) return;
  const left = Math.min(event.clientX + 14, window.innerWidth - tip.offsetWidth - 8);
  const below = event.clientY + 18;
  const above = event.clientY - tip.offsetHeight - 12;
  tip.style.left = `${Math.max(8, left)}px`;
  tip.style.top = `${below + tip.offsetHeight > window.innerHeight ? above : below}px`;
});
document.addEventListener("pointerleave", () => { tip.hidden = true; });

// Tables sort by the column whose heading is pressed, numbers by their exact value.
for (const table of document.querySelectorAll("table.sortable")) {
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => head.firstElementChild.addEventListener("click", () => {
    const first = head.dataset.kind === "text" ? "ascending" : "descending";
    const other = first === "ascending" ? "descending" : "ascending";
    const order = head.getAttribute("aria-sort") === first ? other : first;
    heads.forEach((each) => each.removeAttribute("aria-sort"));
    head.setAttribute("aria-sort", order);
    const sign = order === "ascending" ? 1 : -1;
    const value = (row) => row.cells[column].dataset.v ?? row.cells[column].textContent;
    const compare = head.dataset.kind === "text"
      ? (a, b) => sign * value(a).localeCompare(value(b), undefined, { numeric: true })
      : (a, b) => {
        const [x, y] = [Number(value(a)), Number(value(b))];
        if (Number.isNaN(x) || Number.isNaN(y)) return Number.isNaN(x) - Number.isNaN(y);
        return sign * (x - y);
      };
    table.tBodies[0].append(...[...table.tBodies[0].rows].sort(compare));
  }));
}

document.getElementById("theme").addEventListener("click", () => {
  const root = document.documentElement;
  const system = window.matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
  root.dataset.theme = (root.dataset.theme || system) === "dark" ? "light" : "dark";
});
