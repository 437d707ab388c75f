"""Known-wrong programs of level13.banks. `ghost` is given when this is read."""

DEGREE = "level13.banks.bank_conflict_degree"
WORDS = "for word in {address // word_bytes for address in addresses}:"
ADD = "words[word % n_banks].add(word)"
MOST = "return max((len(of_a_bank) for of_a_bank in words.values()), default=0)"
SWIZZLE = "level13.banks.swizzle"
STORED = "return col ^ (row % n)"

ghost(
    DEGREE,
    "no_broadcast",
    "One word goes to all lanes that want it in one cycle: count different words. Yours counts lanes.",
    change=[
        (WORDS, "for lane, address in enumerate(addresses):"),
        (ADD, "words[address // word_bytes % n_banks].add(lane)"),
    ],
)
ghost(
    DEGREE,
    "addresses_counted",
    "Four lanes with the four bytes of a word want one word; yours counts addresses.",
    change=[(WORDS, "for address in set(addresses):"), (ADD, "words[address // word_bytes % n_banks].add(address)")],
)
ghost(
    DEGREE,
    "banks_of_bytes",
    "A bank is one word wide: divide the address by word_bytes first. Yours takes the address for the word.",
    change=(WORDS, "for word in set(addresses):"),
)
ghost(
    DEGREE,
    "banks_side_by_side",
    "Neighbouring words are in neighbouring banks; yours puts the first n_banks words into one bank, and so on.",
    change=(ADD, "words[word // n_banks].add(word)"),
)
ghost(
    DEGREE,
    "conflicts_of_all_banks",
    "Banks work side by side, and the fullest sets the time; yours adds up what each has too many.",
    change=(MOST, "return sum(len(w) - 1 for w in words.values()) + bool(words)"),
)
ghost(
    DEGREE,
    "conflicts_instead_of_cycles",
    "A read without conflicts takes one cycle; yours counts those on top of it.",
    change=(MOST, "return max((len(w) - 1 for w in words.values()), default=0)"),
)
ghost(
    DEGREE,
    "words_over_banks",
    "It matters in which bank the words are: yours spreads them over all banks evenly.",
    change=(MOST, "return -(-sum(map(len, words.values())) // n_banks)"),
)
ghost(
    DEGREE,
    "banks_that_are_busy",
    "The cycles are the words of the fullest bank; yours counts the banks that have something to give.",
    change=(MOST, "return len(words)"),
)
ghost(
    DEGREE,
    "always_32_banks",
    "There are n_banks banks; yours has 32.",
    change=(ADD, "words[word % 32].add(word)"),
)
ghost(
    DEGREE,
    "always_4_bytes",
    "Words have word_bytes bytes; yours have 4.",
    change=(WORDS, WORDS.replace("word_bytes", "4")),
)
ghost(
    DEGREE,
    "one_cycle_for_nothing",
    "A read in which no lane takes part takes no cycle; yours takes one.",
    change=(MOST, MOST.replace("default=0", "default=1")),
)
ghost(
    SWIZZLE,
    "sum_leaves_the_row",
    "Adding the row leads beyond the row's n words; xor stays among them.",
    change=(STORED, "return col + row % n"),
)
ghost(
    SWIZZLE,
    "rotation",
    "A row that is turned has no conflicts, but going twice does not lead back and neighbours are torn apart: use xor.",
    change=(STORED, "return (col + row) % n"),
)
ghost(
    SWIZZLE,
    "reflection",
    "Subtracting leads back and has no conflicts, but row 0 is reversed and neighbours are torn apart: use xor.",
    change=(STORED, "return (row - col) % n"),
)
ghost(
    SWIZZLE,
    "stored_as_it_is",
    "With every row as it is, a column is in one bank: yours leaves all n words of it there.",
    change=(STORED, "return col"),
)
ghost(
    SWIZZLE,
    "row_not_taken_modulo",
    "From row n on, the row's number has more bits than a column's, and yours leaves the row: take it modulo n.",
    change=(STORED, "return col ^ row"),
)
ghost(
    SWIZZLE,
    "column_zero_stays",
    "Column 0 is read as often as any other, and must be spread as well; yours leaves it in one bank.",
    change=(STORED, "return col and col ^ (row % n)"),
)
ghost(
    SWIZZLE,
    "two_orders",
    "Every row of n needs its own order; yours has one for even rows and one for odd rows.",
    change=(STORED, "return col ^ (row % 2 * (n - 1))"),
)
ghost(
    SWIZZLE,
    "always_32",
    "Rows have n words; yours have 32, and smaller ones are left.",
    change=(STORED, "return col ^ (row % 32)"),
)
ghost(
    SWIZZLE,
    "columns_backwards",
    "Row 0 is stored as it is; yours begins with the reversed row.",
    change=(STORED, "return n - 1 - (col ^ (row % n))"),
)
