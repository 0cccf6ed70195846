"""English word lists and page templates; `pages.py` explains the notation.

Items of a list are separated by "|". All brands are made up; nouns and adjectives are
generic.
"""

import re

RATIO = (21.2, 1.9, 1.0)  # words: none : product : brand
LENGTH = 46.6  # words of a page, on average
JOINER = " "
BARE = 0.3  # the share of products without a word before the noun
PRICES = (6, 180)
CENTS = ".99"
SALE = "sale"
# Nouns that end alike are one kind of item; "spotlight" is a "light".
ITEMS = "cup | pan | lamp | light | table | stand | bag | cream | shirt"


def count(text):
    """Counts what ratio and length are counted in."""
    return len(re.findall(r"\w+", text))


# What other makers have to do with a thing that plugs in, screws on or slides into one.
FITS = """compatible with {other_brand} and most other makers | works with {other_brand}
    models too | not suitable for use with {other_brand} products | fits {other_brand}
    {model} as well | replaces {other_brand} {model}"""
# Nobody gives a warranty on what is eaten or used up.
PERISHABLE = """best before {few} months | rated {stars} out of 5 by {count} customers
    | gift wrapping available at checkout | {count} sold this month"""

CATEGORIES = {
    "drinkware": {
        "path": "Kitchen > Drinkware",
        "head": """water bottle | travel mug | tumbler | teapot | tea cup | carafe
            | coffee cup | pitcher | espresso cup | lunch flask | thermos | milk jug""",
        "kind": "insulated | double wall | lidded | tall | large",
        "material": "stainless steel | glass | ceramic | enamel | titanium",
        "spec": "500 ml | 12 oz | set of 2 | 350 ml | gift boxed | 17 oz",
        "feature": """keeps drinks warm for hours | dishwasher safe and free of BPA
            | no metallic taste, no sweating | easy to clean by hand
            | feels good in the hand | does not drip when you pour
            | stays warm through a long morning""",
        "use": "the office | long commutes | road trips | picnics",
    },
    "cookware": {
        "path": "Kitchen > Cooking",
        "head": """frying pan | saucepan | wok | stock pot | casserole dish | grill pan
            | griddle | roasting tin | milk pan | paella pan | crepe pan | steamer""",
        "kind": "nonstick | induction | deep | shallow | heavy duty",
        "material": "cast iron | carbon steel | copper | granite | aluminium",
        "spec": "10 inch | 28 cm | 24 cm | family size | with lid | 11 inch",
        "feature": """heats evenly from edge to edge | oven safe up to 450 degrees
            | the handle stays cool | works on gas, electric and induction hobs
            | wipes clean in seconds | needs very little oil
            | hangs neatly on any hook""",
        "use": "weeknight dinners | small kitchens | camping stoves | Sunday roasts",
    },
    "lighting": {
        "path": "Home > Lighting",
        "head": """desk lamp | floor lamp | night light | pendant light | wall lamp
            | reading light | table lamp | bedside lamp | ceiling light | lantern
            | spotlight | wall sconce""",
        "kind": "dimmable | adjustable | vintage | slim | smart",
        "material": "brass | rattan | paper | walnut | marble",
        "spec": "12 W | warm white | 3 colour modes | 800 lumen | with bulb | 40 cm",
        "feature": """no flicker, no glare | remembers the last setting
            | one touch turns it on | goes up in ten minutes
            | does not get hot | gives a soft glow in the evening
            | saves energy and lasts for years""",
        "use": "bedrooms | late night reading | home offices | hallways",
        "rival": FITS,
    },
    "bedding": {
        "path": "Home > Bedroom",
        "head": """pillow | duvet cover | throw blanket | fitted sheet | mattress topper
            | quilt | pillowcase | bedspread | comforter | cushion cover | bolster
            | mattress pad""",
        "kind": "cooling | quilted | reversible | extra soft | washable",
        "material": "cotton | linen | bamboo | wool | velvet",
        "spec": "queen size | single | set of 2 | king size | double | two tone",
        "feature": """gets softer with every wash | breathes on warm nights
            | machine washable at 40 degrees | keeps its shape for years
            | gentle on sensitive skin | no scratchy seams
            | comes in a cotton bag""",
        "use": "hot sleepers | guest rooms | cosy evenings | side sleepers",
    },
    "furniture": {
        "path": "Home > Furniture",
        "head": """bookshelf | bedside table | coffee table | bar stool | shoe rack
            | side table | coat stand | writing desk | plant stand | dining chair
            | media console | storage bench""",
        "kind": "folding | modular | round | narrow | mid century",
        "material": "oak | walnut | bamboo | steel | rattan",
        "spec": "60 cm wide | set of 2 | flat packed | 45 cm high | 2 tier | small",
        "feature": """goes together in ten minutes | all tools are in the box
            | felt pads protect the floor | takes up very little space
            | rounded corners for safety | wipe with a damp cloth
            | sturdy enough for daily use""",
        "use": "small flats | hallways | home offices | living rooms",
    },
    "audio": {
        "path": "Electronics > Audio",
        "head": """earbuds | headphones | speaker | soundbar | microphone | turntable
            | headset | radio | record player | subwoofer | neckband | boombox""",
        "kind": "wireless | noise cancelling | portable | waterproof | compact",
        "material": "studio | gaming | karaoke | sports | retro",
        "spec": "20 W | 30 hour battery | USB C | with case | dual driver | 5 inch",
        "feature": """pairs with your phone in seconds | deep bass and clear voices
            | sounds clear even outdoors | charges fully in one hour
            | light enough for a small bag | connects to two devices at once
            | low delay for films and games""",
        "use": "commuting | podcasts | home parties | long flights",
        "rival": FITS,
    },
    "bags": {
        "path": "Fashion > Bags",
        "head": """backpack | tote bag | crossbody bag | wallet | weekend bag
            | laptop bag | duffel bag | belt bag | shoulder bag | messenger bag
            | toiletry bag | gym bag""",
        "kind": "quilted | convertible | foldable | vintage | mini",
        "material": "canvas | leather | nylon | denim | waxed cotton",
        "spec": "one size | with 4 pockets | medium | large | unisex | with strap",
        "feature": """a hidden pocket keeps your cards safe | water runs right off
            | more room than you would think | gets better with age
            | the zips run smoothly | folds flat when it is empty
            | goes from desk to dinner""",
        "use": "school runs | weekend trips | daily commuting | business travel",
    },
    "clothing": {
        "path": "Fashion > Clothing",
        "head": """hoodie | jacket | cardigan | sweater | polo shirt | vest
            | sweatshirt | pullover | parka | shirt dress | cape | overshirt""",
        "kind": "oversized | slim fit | hooded | ribbed | cropped",
        "material": "cotton | merino | linen | corduroy | cashmere",
        "spec": "S to 3XL | unisex | size M | regular fit | women | men",
        "feature": """does not shrink in the wash | side seams sit flat
            | dries overnight on the line | the cuffs keep their shape
            | soft on the inside, smooth on the outside | goes with everything
            | true to size""",
        "use": "chilly mornings | lazy Sundays | hiking days | the office",
    },
    "skincare": {
        "path": "Beauty > Skin Care",
        "head": """face cream | hand cream | face wash | lip balm | body lotion | toner
            | face oil | face serum | eye cream | cleansing balm | night cream
            | body scrub""",
        "kind": "hydrating | soothing | brightening | gentle | repairing",
        "material": "rose | aloe | oat | green tea | honey",
        "spec": "50 ml | 100 g | 30 ml | pack of 2 | travel size | 200 ml",
        "feature": """sinks in quickly, never greasy | free of parabens
            | dermatologically tested | smells faintly of fresh linen
            | a little goes a long way | suits dry and sensitive skin
            | recyclable tube, vegan formula""",
        "use": "dry skin | morning routines | sensitive skin | travel kits",
        "colour": "unscented | lightly scented | limited edition | {plain} tube",
        "service": PERISHABLE,
    },
    "pantry": {
        "path": "Grocery > Pantry",
        "head": """granola | black tea | coffee | olive oil | jam | shortbread
            | hot sauce | trail mix | honeycomb | chocolate | relish | chutney""",
        "kind": "organic | roasted | smoked | spiced | artisan",
        "material": "ginger | hazelnut | chilli | lemon | maple",
        "spec": "250 g | 1 kg | pack of 6 | 500 g | family size | sampler",
        "feature": """no added sugar | packed fresh every week
            | keeps well in a cool, dry place | wakes up any breakfast
            | made in small batches | nothing artificial, ever
            | rich, with a gentle sweetness""",
        "use": "busy mornings | lunch boxes | movie nights | hampers",
        "colour": "original | mild | extra bold | limited edition | {plain} tin",
        "service": PERISHABLE,
    },
}

# Ordinary words that are also brand names here: the neighbours decide which is meant.
COMMON_BRANDS = """Maple | Ember | Harbor | Willow | Meadow | Copper | Walnut | Ivory
    | Lantern | Orchard | Granite | Coral | Linen | Sunday | Honey | Cedar"""

BRAND_FORMS = (
    *("{onset}{nucleus}{coda}{ending}",) * 4,
    *("{onset}{nucleus}{middle}{ending}",) * 4,
    *("{first}{second}",) * 2,
    *("{first} {second}",) * 4,
    *("{second} & {third}",) * 2,
)
BRAND_PARTS = {
    "onset": "b br c cl d dr f fl g h j k l m n p pr qu r s st t tr v w y z",
    "nucleus": "a e i o u ai ea io a o",
    "coda": "nd lm rn st lv rt sk mb nt lk thr nv",
    "middle": "bl dr fr lv lm mb nv rv sk tl v z ndr xl",
    "ending": "a o ia en ix ora elle on is ova um ane",
    "first": """Bright Quiet North Stone Silver Little Wild Blue Morning Honest Paper
        Iron Hollow Winter Velvet Amber Second Lucky Slow Golden Far Tall""",
    "second": """Nest Field Creek Loom Fern Anvil Otter Finch Harvest Lane Pocket Ridge
        Kettle Moth Acre Thistle Barrel Comet Bramble Hearth Plum Gable""",
    "third": "Sons Daughters Vale Ash Thorn Wren Hollow Mill Brook Rye Fox Crane",
}

SLOTS = {
    "adj": """new | premium | everyday | lightweight | classic | stylish | modern
        | handy | lovely | professional""",
    "plain": """maple brown | ember red | walnut brown | ivory white | copper
        | coral pink | granite grey | honey yellow | cedar green | willow green
        | linen beige | meadow green | harbor blue""",
    "colour": """black | {plain} | navy blue | {plain} | white | grey | rose gold | sage
        | {plain} | off white""",
    "percent": "10 | 15 | 20 | 25 | 30 | 40 | 50 | 60 | 70",
    "season": "spring | summer | autumn | winter | weekend | holiday season",
    "dollars": "20 | 25 | 30 | 40 | 50 | 75 | 100",
    "few": "2 | 3 | 4 | 5 | 6 | 8 | 9",
    "days": "7 | 10 | 14 | 30 | 60 | 90",
    "stars": "4.3 | 4.5 | 4.6 | 4.7 | 4.8 | 4.9",
    "count": "38 | 97 | 120 | 214 | 356 | 871 | 1,204 | 2,630",
    "promo": """limited time deal | {percent}% off today | best seller | clearance
        | just in | buy 2 get 1 free | staff pick | last chance | back in stock""",
    "ship": """free shipping on orders over ${dollars} | ships within {few} days
        | free returns for {days} days | next day delivery if you order before {few} pm
        | arrives in plain recycled packaging | tracked delivery included
        | collect it from your nearest store""",
    "service": """{few} year warranty | rated {stars} out of 5 by {count} customers
        | gift wrapping available at checkout | pay later in {few} instalments
        | our support team answers within {few} hours | only {few} left in stock
        | {count} sold this month | members collect double points""",
    "gift": """a thoughtful gift for birthdays | makes a lovely housewarming present
        | a small treat for yourself | great for {use} | made with {use} in mind
        | a little Sunday feeling for every day""",
    # The same kinds of words where they do not name what is sold.
    "rival": """often compared with {other_brand} | a fair alternative to {other_brand}
        | customers also look at {other_brand} | not made by {other_brand}
        | {other_brand} fans like it too | the team at {other_brand} makes its own
        | designed by people who left {other_brand}""",
    "decoy": """{rival} | {rival}
        | customers who viewed this also bought the {other_item}
        | sold by {other_brand} Trading | pairs well with the {other_item}
        | {other_item} not included
        | while stocks last with 1 x {other_item} for free
        | you may also love the {other_item} | brand of the outer box: {other_brand}
        | made for {use} like our {other_item} | a step up from the usual {head}
        | replaces your old {other_item}
        | dispatched from the {other_brand} warehouse
        | looks good next to your {other_item} | filed under {path}
        | read our {head} buying guide first""",
    "notice": """{season} sale: up to {percent}% off in {genre}
        | new arrivals every week in {genre}
        | gift cards from ${dollars}, sent by email
        | flash deals end at midnight, up to {percent}% off
        | how to choose the right {head}: our guide
        | questions about sizes, returns or delivery? Ask us
        | bundle any {few} items from {genre} and save {percent}%
        | win one of {few} {other_brand} vouchers when you review your {other_item}""",
}

STORY = (
    " Every {brand} product is checked by hand.",
    " At {brand} they have thought of {use} for {days} years.",
    " Pack contains 1 x {product} and a leaflet.",
    " The {product} from {brand} is a favourite for {use}.",
    " We think you will love the {product}.",
    " Designed by {brand} with {use} in mind.",
    " In the box: {product}, care card, gift tag.",
    " The team at {brand} tested it for {few} months.",
    " Meet the {product}, made for {use}.",
    " More from {brand} in our {season} edit.",
    " What makes {brand} different? Ask anyone who owns one.",
)
STORY_LIST = tuple("." + sentence.rstrip(".") for sentence in STORY)
NOTICES = ("{Notice}", "{Notice}. {Promo}!")
OWN_BRAND = (
    "{Brand} official store: up to {percent}% off this {season}",
    "New from {brand}: the {season} collection for {use}",
    "All {brand} favourites now {percent}% off in {genre}",
)

PLATFORMS = {
    "bazaar": {
        "titles": (
            "{Brand} {Product}, {spec}, {colour}",
            "{Brand} {Adj} {Product} for {use} ({spec}, {colour})",
            "{Adj} {Product} by {brand}, {spec}",
            "{Product} for {use}, {spec}, {colour}",
            "{Adj} {Product} - {spec}, {rival}",
            "{Product} for {other_brand} fans, {spec}, {colour}",
            *OWN_BRAND,
            *NOTICES,
        ),
        "layout": (
            "[{Promo}] ",
            "TITLE",
            ". {Feature}",
            ". {Feature}",
            ". {Gift}",
            ". {Decoy}",
            ". {Service}",
            STORY_LIST,
            STORY_LIST,
            STORY_LIST,
            ". {Decoy}",
            ". {Service}",
            ". {Ship}",
            ". {Notice}",
        ),
    },
    "auction": {
        "titles": (
            "{BRAND} {Product} {model} {spec} {Colour}",
            "NEW {Product} {BRAND} {spec} for {use}",
            "{Adj} {Product} {model} {spec} {Colour} NEW IN BOX",
            "{Product} {spec} {Colour} ({rival})",
            "{OTHER_BRAND} style {Product} {spec} {Colour}",
            "{BRAND} joblot {few} pieces, unopened, {genre}",
            "Genuine {BRAND} returns {model}, sold as seen",
            "{Notice}",
        ),
        "layout": (
            "🔥 {PROMO} 🔥 ",
            "{PROMO}!! ",
            "TITLE",
            " ✅ {ship}",
            " ✅ {feature}",
            " ✅ {feature}",
            " ✅ {service}",
            " ⚠ {decoy}",
            " 👉 item: {product}, maker: {brand}",
            (" 👉 type: {product}, colour: {colour}", " 👉 all {brand} sizes in stock"),
            " 👉 condition: new, brand: {brand}",
            " 🎁 {gift}",
            " 📦 postage $4.90, {ship}",
            " ⚠ please note: {decoy}",
            " 👀 {notice}",
        ),
    },
    "boutique": {
        "titles": (
            "Meet the {adj} {product} by {brand}, made for {use}.",
            "{Brand} presents the {Product}: {feature}.",
            "Tired of your {other_item}? Try the {product} by {brand}.",
            "The {product} for {use}: {feature}.",
            "Our {Product} in {colour}, {spec}.",
            "{Brand} is back with colours like {plain} and {plain}.",
            "The makers: {brand}, a small workshop with a big heart.",
            "{Notice}.",
        ),
        "layout": (
            "TITLE",
            " {Feature}.",
            STORY,
            " {Feature}.",
            STORY,
            STORY,
            " Choose {colour}, {colour} or {colour}.",
            " {Gift}.",
            " {Decoy}.",
            " {Decoy}.",
            " Size: {spec}. {Ship}.",
            " {Service}.",
            " {Notice}.",
        ),
    },
    "outlet": {
        "titles": (
            "{Brand} {Product} {spec} | {Colour}",
            "{Product} by {Brand} | {spec}",
            "{Product} | {spec} | {Colour}",
            "{Adj} {Product} {model}",
            "{Brand} | up to {percent}% off | {genre}",
            "Outlet event | {brand} {model} | {Colour}",
            "{Notice}",
        ),
        "layout": (
            "All > {path} > {Other_item} > ",
            "{Promo} | ",
            "TITLE",
            " | was ${was}, now ${price}",
            " | {feature}",
            " | {feature}",
            " | {service}",
            " | {ship}",
            " | Item {model}",
            " | Brand: {brand}",
            " | Product type: {Product}",
            " | More by {brand}",
            " | See also: {Other_item}, {Other_item}",
            " | Others in this range: {Other_brand} {model}",
            " | {decoy}",
            " | Best for {use} and {use}",
            " | {notice}",
        ),
    },
    "studio": {
        "categories": """drinkware | lighting | bedding | furniture | bags | clothing
            | skincare | pantry""",
        "titles": (
            "{Product} 🌿 {spec} 🌿 made by {brand}.",
            "Handmade {Product} from the {brand} workshop, {colour}.",
            "Handmade {Product} in {colour}, {spec} 🌿",
            "Matches your {Other_item}: {Product}, {spec}.",
            "Hello from {brand}! We make small things for {use}.",
            "{Brand} gift voucher, {dollars} dollars.",
            "{Notice} 🌿",
        ),
        "layout": (
            "TITLE",
            " ✨ {Feature}.",
            STORY,
            " ✨ {Feature}.",
            STORY,
            STORY,
            " Made to order in {few} days, {ship}.",
            " {Gift}.",
            " Also in the shop: {other_item} and {other_item}.",
            " Not affiliated with {other_brand}.",
            " {Decoy}.",
            " {Service}.",
            " {Notice}.",
            " Thank you for supporting small makers!",
        ),
    },
}
