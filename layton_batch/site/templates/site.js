(() => {
  "use strict";
  const words = new Intl.Collator(undefined, { numeric: true, sensitivity: "base" });

  const valueOf = (row, column) => {
    const cell = row.cells[column];
    return cell.dataset.value === undefined ? cell.textContent.trim().replace(/(\d),(?=\d{3})/g, "$1") : cell.dataset.value;
  };
  const compare = (a, b) => {
    const x = Number(a), y = Number(b);
    return Number.isNaN(x) || Number.isNaN(y) ? words.compare(a, b) : x - y;
  };
  const sort = (table, head, direction) => {
    const column = head.cellIndex, sign = direction === "ascending" ? 1 : -1;
    for (const other of head.parentNode.cells) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", direction);
    for (const body of table.tBodies) {
      const keyed = Array.from(body.rows, (row) => [valueOf(row, column), row]);
      // What has no value stays at the end, whichever way the rest is sorted.
      keyed.sort(([a], [b]) => (a === "") - (b === "") || (a === "" ? 0 : sign * compare(a, b)));
      body.append(...keyed.map(([, row]) => row));
    }
  };
  for (const table of document.querySelectorAll("table[data-sortable]")) {
    for (const button of table.tHead.querySelectorAll("button[data-sort]")) {
      button.addEventListener("click", () => {
        const head = button.closest("th"), now = head.getAttribute("aria-sort");
        const turned = now === "ascending" ? "descending" : "ascending";
        sort(table, head, now ? turned : button.dataset.first);
      });
    }
  }

  for (const tools of document.querySelectorAll("[data-filter-for]")) {
    const lists = tools.dataset.filterFor.split(" ").map((id) => document.getElementById(id));
    const search = tools.querySelector("[data-search]"), count = tools.querySelector("[data-count]");
    const selects = [...tools.querySelectorAll("select[data-key]")];
    const texts = new Map();
    const textOf = (entry) => {
      if (!texts.has(entry)) {
        const more = window.itemWords ? window.itemWords[entry.dataset.place] : "";
        const told = [...entry.children].filter((one) => !one.classList.contains("c-tally"));
        texts.set(entry, `${told.map((one) => one.textContent).join(" ").toLowerCase()} ${more}`);
      }
      return texts.get(entry);
    };
    // Words that the list does not show stand in a file of their own, which is loaded when somebody searches.
    const load = () => {
      if (!("words" in tools.dataset)) return;
      const script = Object.assign(document.createElement("script"), { src: tools.dataset.words });
      delete tools.dataset.words;
      script.addEventListener("load", () => (texts.clear(), apply()));
      document.head.append(script);
    };
    const bare = (word) => word.replace(/^[^\p{L}\p{N}]+|[^\p{L}\p{N}]+$/gu, "") || word;
    const holds = (value, one) => ("oneOf" in one.dataset ? value.split(" ").includes(one.value) : value === one.value);
    // A choice is kept in the address by its words, which stay the same when another model joins.
    const wordsOf = (option) => option.textContent;
    const keep = () => {
      if (!("kept" in tools.dataset)) return;
      const kept = new URLSearchParams();
      if (search.value) kept.set("q", search.value);
      for (const one of selects) if (one.value) kept.set(one.dataset.key, wordsOf(one.selectedOptions[0]));
      history.replaceState(null, "", `#${kept}`);
    };
    const restore = () => {
      if (!("kept" in tools.dataset)) return;
      const kept = new URLSearchParams(location.hash.slice(1));
      search.value = kept.get("q") ?? "";
      for (const one of selects) {
        const meant = [...one.options].find((option) => wordsOf(option) === kept.get(one.dataset.key));
        one.value = meant ? meant.value : "";
      }
    };
    const apply = () => {
      const wanted = search.value.toLowerCase().split(/\s+/).filter(Boolean).map(bare);
      if (wanted.length) load();
      const entries = lists.flatMap((list) => [...list.children]);
      let shown = 0;
      for (const entry of entries) {
        const fits = selects.every((one) => !one.value || holds(entry.dataset[one.dataset.key], one));
        entry.hidden = !(fits && wanted.every((word) => textOf(entry).includes(word)));
        shown += !entry.hidden;
      }
      count.textContent = shown === entries.length ? "" : `${shown / lists.length} of ${entries.length / lists.length}`;
    };
    const change = () => (apply(), keep());
    search.addEventListener("focus", load);
    search.addEventListener("input", change);
    selects.forEach((one) => one.addEventListener("change", change));
    window.addEventListener("hashchange", () => (restore(), apply()));
    restore();
    // Browsers put back what was typed when a reader returns to the page.
    window.addEventListener("pageshow", apply);
    tools.hidden = false;
  }

  const folds = [];
  window.addEventListener("beforeprint", () => {
    for (const fold of document.querySelectorAll("details:not([open])")) folds.push(fold), (fold.open = true);
  });
  window.addEventListener("afterprint", () => folds.splice(0).forEach((fold) => (fold.open = false)));
})();
