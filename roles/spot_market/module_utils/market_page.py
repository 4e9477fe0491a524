"""The plan as one HTML page that loads nothing: price by zone over time, cost by offer, the table."""

from html import escape

import plotly.graph_objects as go
from ansible.module_utils.market_prices import linux_rows
from ansible.module_utils.run_costs import PARTS
from plotly.io import to_html
from plotly.offline import get_plotlyjs

SHOWN = 15
PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>What the run will cost</title>
<style>body {{ font: 16px sans-serif; margin: 2em }} pre {{ overflow-x: auto }}</style>
<script>{plotly}</script></head>
<body><h1>What the run will cost</h1>
{charts}
<pre>{table}</pre></body></html>
"""


def render_page(plan, survey, table):
    """The page's text."""
    figures = [figure for figure in (_costs(plan["offers"]), _prices(plan, survey)) if figure.data]
    charts = "\n".join(
        to_html(figure, include_plotlyjs=False, full_html=False, config={"displaylogo": False}) for figure in figures
    )
    return PAGE.format(plotly=get_plotlyjs(), charts=charts, table=escape(table))


def _costs(offers):
    """Bars of the cheapest offers, one colour a part of the cost; the cheapest at the top."""
    shown = offers[:SHOWN][::-1]
    figure = go.Figure()
    for part in PARTS:
        figure.add_bar(
            name=part.replace("_", " "), orientation="h", y=[_name(offer) for offer in shown],
            x=[offer["cost_usd"][part] for offer in shown],
        )
    return figure.update_layout(
        barmode="stack", title="Cost of the run by offer", xaxis_title="USD", yaxis_automargin=True,
        height=200 + 30 * len(shown),
    )


def _name(offer):
    where = offer["zone"] or offer["region"]
    return f"{offer['rank']}: {offer['instance_type']} {where} {offer['market'].replace('_', ' ')}"


def _prices(plan, survey):
    """Steps: a price holds until the next one. On-demand prices as dotted lines."""
    figure = go.Figure()
    for _, found in sorted(survey["regions"].items()):
        for zone, instance_type in sorted({(row["zone"], row["instance_type"]) for row in found["prices"]}):
            rows = linux_rows(found["prices"], zone, instance_type, survey["now"])
            figure.add_scatter(
                name=f"{instance_type} {zone}", mode="lines", line_shape="hv",
                x=[row["at"] for row in rows] + [survey["now"]], y=[row["usd"] for row in rows + rows[-1:]],
            )
    for price, instance_type in sorted(
        {(offer["price_usd_per_hour"], offer["instance_type"]) for offer in plan["offers"] if offer["market"] != "spot"}
    ) if figure.data else []:
        figure.add_hline(price, line_dash="dot", annotation_text=f"{instance_type} on demand")
    return figure.update_layout(
        title="Spot price by zone", xaxis_title="UTC", yaxis_title="USD an hour", yaxis_rangemode="tozero",
    )
