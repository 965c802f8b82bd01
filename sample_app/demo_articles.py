"""The articles of the demo site, which is about a neighbourhood garden."""

from __future__ import annotations

from dataclasses import dataclass

CONTENT_TYPES = {
    "news": ("News", "What happens in the garden."),
    "guide": ("Guide", "How to do things, step by step."),
    "recipe": ("Recipe", "What to do with all those courgettes."),
}
"""The label and description of each content type, by name."""


@dataclass(frozen=True)
class DemoArticle:
    """An article of the demo site."""

    type: str
    author: str
    title: str
    body: str


DEMO_ARTICLES = (
    DemoArticle(
        "news",
        "admin",
        "The gate is open",
        """\
After two winters of paperwork the empty lot behind the tram stop is ours. The city has signed the
lease for ten years, the rubble is gone, and the first forty beds are marked with string.

Come by on any Saturday before noon. There are spare gloves in the shed, and there is always tea.
""",
    ),
    DemoArticle(
        "guide",
        "editor",
        "Compost that does not smell",
        """\
A heap that smells is a heap that cannot breathe. The cure is almost always something dry.

1. Begin with a hand's breadth of twigs, so that air comes in from below.
2. Add kitchen scraps and dry leaves in turns, twice as many leaves as scraps.
3. Keep it as damp as a wrung-out sponge.
4. Turn it once a month. When it smells of forest, it is done.

No cooked food, no meat, and no weeds that carry seeds.
""",
    ),
    DemoArticle(
        "recipe",
        "editor",
        "Nettle soup for four",
        """\
Pick the top four leaves of young nettles, with gloves, before they flower.

- 200 g nettle tops
- 2 floury potatoes
- 1 onion
- 1 litre of vegetable stock

Soften the chopped onion in butter, add the diced potatoes and the stock, and simmer until the
potatoes fall apart. Stir in the nettles for two minutes: heat takes the sting away. Blend, and
finish with a spoon of cream.
""",
    ),
    DemoArticle(
        "news",
        "editor",
        "Rain barrels have arrived",
        """\
Six barrels of 300 litres each now stand below the roof of the shed. One good summer storm fills
them all.

Please water from the barrels first and from the tap only when they are empty. Close the lid when
you are done, or the mosquitoes will move in before the week is over.
""",
    ),
    DemoArticle(
        "guide",
        "editor",
        "Tomatoes from seed to plate",
        """\
Sow in March on a warm window sill, half a centimetre deep. When the second pair of leaves appears,
give every plant a pot of its own and set it as deep as the first leaves: the buried stem grows
roots.

Plant out after the last frost, usually in the middle of May. Water the soil and never the leaves,
in the morning rather than at night. Break off the side shoots with your fingers while they are
short.
""",
    ),
    DemoArticle(
        "news",
        "admin",
        "Bees on the tool shed",
        """\
Two colonies have moved onto the flat roof. They are gentle, they fly high above the path, and they
have already found the lime trees on Mill Road.

Jonas looks after them on Sundays and likes company. Bring a light jacket without a hood; veils are
in the cupboard.
""",
    ),
    DemoArticle(
        "guide",
        "admin",
        "Sharpening a spade",
        """\
A sharp spade saves more effort than a strong back.

Clamp it with the blade up. Follow the bevel that is already there with a flat file, always away
from you, in long strokes from one corner to the other. Ten strokes are usually enough. Turn the
spade over and take off the burr with one light pass. Wipe it with an oily rag, and hang it up
instead of leaning it in a corner.
""",
    ),
    DemoArticle(
        "recipe",
        "admin",
        "Courgette cake",
        """\
For the week in August in which nobody accepts courgettes any more.

- 300 g courgettes, grated and squeezed
- 3 eggs
- 180 g sugar
- 150 ml oil
- 250 g flour
- 2 teaspoons of baking powder, 1 of cinnamon

Beat eggs and sugar until pale, stir in the oil, fold in the rest. Fifty minutes at 175 degrees. It
is better on the second day, if there is one.
""",
    ),
    DemoArticle(
        "news",
        "editor",
        "Harvest supper on the last Saturday of August",
        """\
One long table down the middle path, everything on it grown within sight of your chair. Last year we
were sixty-two.

Bring a dish, a plate and a lamp. Someone's accordion is expected again. If it rains we move under
the tram bridge, which has excellent acoustics.
""",
    ),
    DemoArticle(
        "guide",
        "editor",
        "Saving your own seeds",
        """\
Begin with beans, peas and lettuce: they pollinate themselves and come true.

Let the pods dry on the plant until they rattle. Shell them, spread the seeds on paper for another
week, and keep them in a labelled envelope somewhere cool and dark. Write down the year. Beans stay
good for three, parsnips hardly for one.

Leave pumpkins to the experts: they cross with everything that flowers nearby, and the result is
edible only by luck.
""",
    ),
    DemoArticle(
        "recipe",
        "editor",
        "Pickled green tomatoes",
        """\
When the first cold night is forecast, pick everything that is still green.

Slice a kilogram of tomatoes, salt them and let them stand overnight. Boil half a litre of vinegar
with a quarter litre of water, 150 g of sugar, mustard seeds, a bay leaf and a sliced onion. Add the
drained tomatoes, bring back to the boil, fill into hot jars. Wait four weeks. They go with bread
and cheese, and with patience.
""",
    ),
    DemoArticle(
        "news",
        "admin",
        "What the soil test says",
        """\
The laboratory has answered: no lead worth mentioning, plenty of lime, little nitrogen. The corner
by the wall, where the coal yard used to be, stays planted with flowers for another year.

In plain words: compost generously, plant beans and clover, and give the blueberries a tub of their
own.
""",
    ),
    DemoArticle(
        "guide",
        "admin",
        "Putting the beds to sleep",
        """\
Bare soil loses in one winter what took a summer to build.

Cut spent plants at the ground and leave their roots to the worms. Spread two fingers of compost,
then a blanket of leaves or straw. Sow winter rye where nothing stands before October ends. Empty
the rain barrels, drain the hose, and take the dahlias indoors. Then close the gate and do nothing
at all until February.
""",
    ),
    DemoArticle(
        "recipe",
        "admin",
        "Quince paste",
        """\
Rub the down off a kilogram and a half of quinces and simmer them whole until they are soft. Pass
the flesh through a sieve, weigh it, and add three quarters of its weight in sugar and the juice of
a lemon.

Stir over a low flame until the spoon leaves a trail that stays, about an hour, and until it has
turned the red of old bricks. Spread two centimetres thick, let it dry for three days, and cut it
into squares.
""",
    ),
)
"""In the order in which they were written."""
