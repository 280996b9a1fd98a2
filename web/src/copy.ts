// A button beside every change, that copies it. Where the clipboard is closed to a file of one's own, the text is
// selected, so that one key copies it.
export function copies(): void {
  for (const block of document.querySelectorAll<HTMLElement>("pre.change")) {
    const code = block.querySelector("code");
    if (!code) continue;
    const button = document.createElement("button");
    button.type = "button";
    button.className = "copy";
    button.textContent = "Copy";
    button.onclick = async () => {
      button.textContent = (await copied(code)) ? "Copied" : "Selected";
      setTimeout(() => (button.textContent = "Copy"), 2000);
    };
    block.classList.add("copies");
    block.append(button);
  }
}

async function copied(code: HTMLElement): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(code.textContent ?? "");
    return true;
  } catch {
    getSelection()?.selectAllChildren(code);
    return false;
  }
}
