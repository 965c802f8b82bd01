// The theme: as the reader's system is, light, or dark. This runs before there is a page, so that no other colours flash.

(() => {
  const KEY = "flask-jsonrpc-mcp.theme";
  const SYSTEM = "system";

  function remembered() {
    try {
      const theme = localStorage.getItem(KEY);
      return ["light", "dark"].includes(theme) ? theme : SYSTEM;
    } catch {
      return SYSTEM; // the browser keeps nothing for this page
    }
  }
  function choose({ target }) {
    document.documentElement.dataset.theme = target.value;
    try {
      target.value === SYSTEM ? localStorage.removeItem(KEY) : localStorage.setItem(KEY, target.value);
    } catch {
      // Then it lasts as long as the page.
    }
  }
  document.documentElement.dataset.theme = remembered();
  addEventListener("DOMContentLoaded", () => {
    const choice = document.getElementById("theme");
    choice.querySelector(`[value="${document.documentElement.dataset.theme}"]`).checked = true;
    choice.addEventListener("change", choose);
  });
})();
