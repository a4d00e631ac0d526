"""How the report looks: on a screen by day and by night, and on paper."""

from typing import Final

STYLE: Final = """
:root{color-scheme:light dark;--page:#f4f6f8;--card:#fff;--text:#1d2733;--soft:#64707d;--rule:#e2e7ec;--good:#1f7a45;
--good-back:#e3f4ea;--bad:#b3261e;--bad-back:#fbe6e4;--s0:#2f7fb3;--s1:#e0815a;--s2:#4fa583;--s3:#d9ab3f;--s4:#8467a8;
--s5:#c4637f;--s6:#5a6f8f;--s7:#9a6a3a}
@media (prefers-color-scheme:dark){:root{--page:#12171d;--card:#1b222b;--text:#e3e9ef;--soft:#94a1af;--rule:#2d3742;
--good:#74d39b;--good-back:#17352499;--bad:#ff9a90;--bad-back:#4a1f1c99;--s0:#5aa9dd;--s1:#f09a74;--s2:#6cc7a3;
--s3:#ecc45c;--s4:#a98bd0;--s5:#e0859f;--s6:#8ba2c6;--s7:#c4925f}}
*{box-sizing:border-box}
body{font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,sans-serif;margin:0;background:var(--page);
color:var(--text)}
main{max-width:1080px;margin:0 auto;padding:28px 20px 48px}
h1{font-size:26px;margin:0}h2{font-size:17px;margin:0 0 2px}h2 small{font-weight:400;color:var(--soft);font-size:13px}
header p{margin:4px 0 0;color:var(--soft)}
.verdict{margin:18px 0;padding:12px 16px;border-radius:10px;font-weight:600}
.verdict.yes{color:var(--good);background:var(--good-back)}.verdict.no{color:var(--bad);background:var(--bad-back)}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(150px,1fr));gap:12px;margin-bottom:16px}
.tile{background:var(--card);border:1px solid var(--rule);border-radius:10px;padding:12px 16px}
.tile b{display:block;font-size:24px;line-height:1.25;font-variant-numeric:tabular-nums}
.tile span{color:var(--soft);font-size:13px}.tile.no b{color:var(--bad)}
section{background:var(--card);border:1px solid var(--rule);border-radius:10px;padding:16px 18px;margin-bottom:16px}
.pair{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(440px,100%),1fr));gap:16px;align-items:start}
.pair section{margin:0}.pair{margin-bottom:16px}.stack{display:grid;gap:16px}.pair h2 small{display:block}
section p{margin:2px 0 8px;color:var(--soft);font-size:13px}
.scroll{overflow-x:auto}.scroll svg{min-width:640px}
table{border-collapse:collapse;font-size:12.5px;width:100%;font-variant-numeric:tabular-nums}
td,th{padding:5px 6px;text-align:right;border-bottom:1px solid var(--rule);white-space:nowrap}
th{color:var(--soft);font-weight:600;font-size:11.5px;white-space:normal;vertical-align:bottom}
tr:last-child td{border-bottom:0}
.text{text-align:left}abbr{text-decoration:none;font-family:ui-monospace,Menlo,Consolas,monospace;font-size:12px}
svg{display:block;width:100%;height:auto;font-size:12.5px;fill:var(--text);margin-top:6px}
svg .grid{stroke:var(--rule)}svg .axis{stroke:var(--soft)}
svg .value,svg .name{text-anchor:end}svg .time{text-anchor:middle}svg .value,svg .time{fill:var(--soft)}
svg .line{fill:none;stroke:var(--s0);stroke-width:1.8;stroke-linejoin:round}svg .band{fill:var(--s0);opacity:.18}
.s0{fill:var(--s0)}.s1{fill:var(--s1)}.s2{fill:var(--s2)}.s3{fill:var(--s3)}.s4{fill:var(--s4)}.s5{fill:var(--s5)}
.s6{fill:var(--s6)}.s7{fill:var(--s7)}
.legend{display:flex;flex-wrap:wrap;gap:4px 18px;font-size:12px}.legend svg{width:11px;height:11px;margin:0 6px 0 0}
.legend span{display:flex;align-items:center}
.yes{color:var(--good)}.no{color:var(--bad);font-weight:600}
@media print{:root{color-scheme:light;--page:#fff;--card:#fff;--text:#000;--soft:#444;--rule:#ccc}
body{font-size:11px}main{max-width:none;padding:0}section,.tile{break-inside:avoid}
.pair{grid-template-columns:1fr 1fr}.scroll{overflow:visible}.scroll svg{min-width:0}
td,th{padding:2px 5px;font-size:9px}
*{print-color-adjust:exact;-webkit-print-color-adjust:exact}}
"""
