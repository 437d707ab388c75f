"""Known-wrong programs of level13.coalescing. `ghost` is given when this is read."""

ID = "level13.coalescing.sectors"
SPANS = "spans = [(a // sector_bytes, (a + bytes_per_lane - 1) // sector_bytes) for a in addresses]"
COUNT = "return len({sector for first, last in spans for sector in range(first, last + 1)})"
SHARE = "return len(wanted) / (sectors(addresses, bytes_per_lane, sector_bytes) * sector_bytes)"

ghost(
    ID,
    "one_for_each_lane",
    "A sector is moved once, for all lanes that want some of it; yours is moved for each lane.",
    change=(COUNT, "return sum(last - first + 1 for first, last in spans)"),
)
ghost(
    ID,
    "the_whole_span",
    "Only sectors that some lane touches are moved; yours are all from the lowest address to the highest.",
    change=(
        COUNT,
        "return max((last for _, last in spans), default=-1) - min((first for first, _ in spans), default=0) + 1",
    ),
)
ghost(
    ID,
    "every_fourth_byte",
    "A lane may begin anywhere: yours looks at every fourth byte of it, and its last one may be in the next sector.",
    change=(COUNT, "return len({byte // sector_bytes for a in addresses for byte in range(a, a + bytes_per_lane, 4)})"),
)
ghost(
    ID,
    "first_sector_only",
    "A lane that reads across a border wants both sectors; yours counts the one in which it begins.",
    change=(COUNT, "return len({first for first, _ in spans})"),
)
ghost(
    ID,
    "both_ends_only",
    "A lane that reads 100 bytes wants the sectors in the middle, too; yours counts those of its two ends.",
    change=(COUNT, "return len({sector for span in spans for sector in span})"),
)
ghost(
    ID,
    "volume",
    "It matters where the bytes are: 128 bytes that begin at 4 touch 5 sectors. Yours divides their number.",
    change=(
        COUNT,
        "return -(-len({a + i for a in addresses for i in range(bytes_per_lane)}) // sector_bytes)",
    ),
)
ghost(
    ID,
    "one_byte_too_far",
    "The last byte of a lane is a + bytes - 1; yours reads one more, and a lane that ends at a border crosses it.",
    change=(SPANS, SPANS.replace(" - 1", "")),
)
ghost(
    ID,
    "always_32",
    "Sectors have sector_bytes; yours have 32.",
    change=(SPANS, "sector_bytes = 32\n    " + SPANS),
)
ghost(
    ID,
    "lanes_counted",
    "32 lanes that read the same word ask for 4 bytes, not 128: yours counts a byte for each of them.",
    change=(SHARE, SHARE.replace("len(wanted)", "len(addresses) * bytes_per_lane")),
    part="load_efficiency",
)
ghost(
    ID,
    "words_counted",
    "Lanes that overlap ask for some bytes together; yours counts all bytes of every different address.",
    change=(SHARE, SHARE.replace("len(wanted)", "len(set(addresses)) * bytes_per_lane")),
    part="load_efficiency",
)
ghost(
    ID,
    "inverse",
    "The share is what is wanted over what is moved: in (0, 1]. Yours is the other way round.",
    change=(SHARE, "return sectors(addresses, bytes_per_lane, sector_bytes) * sector_bytes / len(wanted)"),
    part="load_efficiency",
)
ghost(
    ID,
    "cache_lines",
    "Sectors are moved, of 32 bytes; yours are the cache's lines of four sectors each.",
    change=(SHARE, "return len(wanted) / (sectors(addresses, bytes_per_lane, 4 * sector_bytes) * 4 * sector_bytes)"),
    part="load_efficiency",
)
ghost(
    ID,
    "aligned_words",
    "Lanes begin at any byte; yours counts words that begin at multiples of bytes_per_lane.",
    change=(SHARE, SHARE.replace("len(wanted)", "len({a // bytes_per_lane for a in addresses}) * bytes_per_lane")),
    part="load_efficiency",
)
