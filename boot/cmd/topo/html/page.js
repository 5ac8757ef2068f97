'use strict';
(() => {
    const root = document.documentElement;
    const at = (id) => document.getElementById(id);
    const all = (what) => document.querySelectorAll(what);
    let gpu = null, ssd = null;

    root.classList.add('js');

    // The elements from a card up to its root bus.
    function path(id) {
        const list = [];
        for (let node = at(id); node; node = node.dataset.parent ? at(node.dataset.parent) : null)
            list.push(node.id);
        return list;
    }

    // Mark the path between two cards: up to the common bridge, or to the root bus.
    function between(a, b, climbs) {
        const up = path(a), down = path(b);
        const turn = climbs ? undefined : up.find((id) => down.includes(id));
        const until = (list) => turn ? list.slice(0, list.indexOf(turn) + 1) : list;
        mark([...until(up), ...until(down)], turn);
    }

    function mark(nodes, turn) {
        all('svg .marked').forEach((e) => e.classList.remove('marked'));
        nodes.forEach((id) => {
            const edge = at('e' + id);
            at(id).classList.add('marked');
            if (edge && id !== turn) {
                edge.classList.add('marked');
                edge.parentNode.append(edge); // drawn above the other edges
            }
        });
    }

    function show(id) {
        const article = at(id);
        if (!article || article.tagName !== 'ARTICLE')
            return;
        all('article.on, a.on').forEach((e) => e.classList.remove('on'));
        article.classList.add('on');
        all('a').forEach((e) => {
            if (e.getAttribute('href') === '#' + id && !e.closest('svg'))
                e.classList.add('on');
        });
        const { a, b, fn, climbs } = article.dataset;
        if (a && b && at(a) && at(b))
            between(a, b, climbs);
        else
            mark(fn && at(fn) ? path(fn) : []);
    }

    // As show(); also sets the page's address to this article.
    function open(id) {
        show(id);
        history.replaceState(null, '', '#' + id);
    }

    function choose(node) {
        const { column, row } = node.dataset;
        if (column !== undefined)
            gpu = gpu === node ? null : node;
        if (row !== undefined)
            ssd = ssd === node ? null : node;
        all('svg a.chosen').forEach((e) => e.classList.remove('chosen'));
        [gpu, ssd].forEach((e) => e && e.classList.add('chosen'));
        const pair = gpu && ssd && at('c' + gpu.dataset.column + '-' + ssd.dataset.row);
        if ((column === undefined && row === undefined) || !pair) {
            open('i' + node.id);
            if (gpu && ssd)
                between(gpu.id, ssd.id);
            return;
        }
        open(pair.id);
        between(gpu.id, ssd.id, pair.dataset.climbs);
    }

    document.addEventListener('click', (event) => {
        const link = event.target.closest('a[href^="#"]');
        if (!link)
            return;
        event.preventDefault();
        if (link.closest('svg'))
            choose(link);
        else
            open(link.getAttribute('href').slice(1));
    });
    const first = document.querySelector('article');
    if (location.hash.length > 1 && at(location.hash.slice(1)))
        show(location.hash.slice(1));
    else if (first)
        show(first.id);
})();
