// Marks in the header which section is being read.
export function here(): void {
  const links = new Map<Element, HTMLAnchorElement>();
  for (const link of document.querySelectorAll<HTMLAnchorElement>(".top nav a")) {
    const section = document.getElementById(link.hash.slice(1));
    if (section) links.set(section, link);
  }
  const seen = new Set<Element>();
  const watcher = new IntersectionObserver(
    (entries) => {
      for (const entry of entries) {
        if (entry.isIntersecting) seen.add(entry.target);
        else seen.delete(entry.target);
      }
      const first = [...links.keys()].find((section) => seen.has(section));
      for (const [section, link] of links) {
        if (section === first) {
          link.setAttribute("aria-current", "true");
          link.parentElement?.scrollTo({ left: link.offsetLeft - 32 }); // of a header that scrolls sideways
        } else link.removeAttribute("aria-current");
      }
    },
    { rootMargin: "-72px 0px -60% 0px" },
  );
  for (const section of links.keys()) watcher.observe(section);
}
