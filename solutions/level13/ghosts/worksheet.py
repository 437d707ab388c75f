"""Slips of the worksheet of level13. `slip` is given when this is read."""

from math import ceil

A, B, C = 1000 * 1024, 1024 * 3000, 1000 * 3000  # elements of question 7
MOVED = 2 * (300 * 4096 + 4096 * 6144 + 300 * 6144)  # bytes of question 8
WAVE = 1e6 * 142 * 2 * 128 * 128 * 4096 / 362e12  # microseconds of a wave

slip(
    "level13.worksheet.array_cycles",
    "no_weight_load",
    "98,256: the weights were there already; each tile's take 256 cycles to move in.",
    value=184 * (24 + 256 + 256 - 2),
)
slip(
    "level13.worksheet.array_cycles",
    "rounded_down",
    "139,040: the last columns were left out; 5,700 are 22 tiles and a ragged one, which takes as long.",
    value=8 * 22 * 790,
)
slip(
    "level13.worksheet.array_cycles",
    "not_rounded",
    "140,719: a part of a tile was counted; a ragged one takes as long as a whole one.",
    value=8 * 5700 / 256 * 790,
)
slip(
    "level13.worksheet.array_cycles",
    "no_way_through",
    "51,520: sums left as soon as tokens had entered; the last has 255 cells to the right and 255 down to go.",
    value=184 * (256 + 24),
)
slip(
    "level13.worksheet.array_cycles",
    "tokens_only",
    "4416: only the tokens were counted, neither the weights that move in nor the way through the array.",
    value=184 * 24,
)
slip(
    "level13.worksheet.array_cycles",
    "one_tile",
    "790: that is one tile; the matrix has 8 x 23 of them.",
    value=790,
)
slip(
    "level13.worksheet.array_cycles",
    "all_cells_busy",
    "4275: that would be with every cell at work in every cycle.",
    value=24 * 2048 * 5700 / 256**2,
)
slip(
    "level13.worksheet.warps_needed",
    "one_short",
    "46: one too few; in a turn of 464 cycles they fill 460.",
    value=46,
)
slip(
    "level13.worksheet.warps_needed",
    "latency_over_work",
    "51: the load takes a cycle of the scheduler too: each warp fills 10 in its turn.",
    value=ceil(455 / 9),
)
slip(
    "level13.worksheet.warps_needed",
    "turn_over_work",
    "52: the load was forgotten in what a warp fills: it is 10 cycles, not 9.",
    value=ceil(464 / 9),
)
slip(
    "level13.worksheet.warps_needed",
    "itself_not_counted",
    "48: the waiting warp was added once more; it fills cycles of its own turn as well.",
    value=48,
)
slip(
    "level13.worksheet.warps_needed",
    "a_cycle_each",
    "464: each warp filled one cycle; it has 10 instructions in a turn.",
    value=464,
)
slip(
    "level13.worksheet.warps_needed",
    "latency_only",
    "455: that is the latency; a warp fills more than one of its cycles.",
    value=455,
)
slip(
    "level13.worksheet.warps_needed",
    "lanes",
    "1504: those are threads; 32 of them are a warp.",
    value=47 * 32,
)
slip(
    "level13.worksheet.loads_in_flight",
    "one_short",
    "34: too few; 34.23 are needed, and a part of a load has to be asked for as well.",
    value=34,
)
slip(
    "level13.worksheet.loads_in_flight",
    "whole_card",
    "4860: that is for the whole card; 142 SMs share it.",
    value=ceil(864e9 * 720e-9 / 128),
)
slip(
    "level13.worksheet.loads_in_flight",
    "bytes",
    "4381: those are bytes for an SM; a warp's load is 128 of them.",
    value=864e9 * 720e-9 / 142,
)
slip(
    "level13.worksheet.loads_in_flight",
    "one_lane",
    "1096: those are loads of single lanes; a warp loads 32 times as much at once.",
    value=ceil(864e9 * 720e-9 / 142 / 4),
)
slip(
    "level13.worksheet.loads_in_flight",
    "sectors",
    "137: those are sectors; a warp's load moves four.",
    value=ceil(864e9 * 720e-9 / 142 / 32),
)
slip(
    "level13.worksheet.loads_in_flight",
    "round_trip_twice",
    "69: the latency was doubled; 720 ns are there and back already.",
    value=ceil(2 * 864e9 * 720e-9 / 142 / 128),
)
slip(
    "level13.worksheet.loads_in_flight",
    "one_way",
    "18: the latency was halved; a load is under way until its answer has come.",
    value=ceil(864e9 * 360e-9 / 142 / 128),
)
slip(
    "level13.worksheet.loads_in_flight",
    "bits",
    "274: those are bits over bytes; 864 GB/s are bytes already.",
    value=ceil(8 * 864e9 * 720e-9 / 142 / 128),
)
slip(
    "level13.worksheet.occupancy_percent",
    "one_pool_of_registers",
    "28.12: registers were one pool for 19 warps; a partition holds 4, so the SM holds 16, and 2 blocks of 6.",
    value=100 * 18 / 64,
)
slip(
    "level13.worksheet.occupancy_percent",
    "parts_of_blocks",
    "25: those are the 16 warps that registers allow; blocks are whole, and have 6.",
    value=100 * 16 / 64,
)
slip(
    "level13.worksheet.occupancy_percent",
    "threads",
    "17.58: threads were counted; the sixth warp is a whole one, though it has only 20.",
    value=100 * 2 * 180 / 2048,
)
slip(
    "level13.worksheet.occupancy_percent",
    "threads_and_pool",
    "26.37: threads were counted, 3 blocks of 180; registers go to whole warps, in units of 256, in 4 partitions.",
    value=100 * 3 * 180 / 2048,
)
slip(
    "level13.worksheet.occupancy_percent",
    "shared_memory_only",
    "65.62: that is what shared memory allows, 7 blocks; registers allow fewer.",
    value=100 * 42 / 64,
)
slip(
    "level13.worksheet.occupancy_percent",
    "warps_only",
    "93.75: only the 64 warps were counted; registers and shared memory run out before.",
    value=100 * 60 / 64,
)
slip(
    "level13.worksheet.occupancy_percent",
    "two_blocks",
    "2: those are the blocks; asked is the share of the 64 warps.",
    value=2,
)
slip(
    "level13.worksheet.occupancy_percent",
    "warps",
    "12: those are the warps; asked is their share of 64, in percent.",
    value=12,
)
slip(
    "level13.worksheet.occupancy_percent",
    "fraction",
    "0.1875: that is the fraction; asked is the percentage.",
    value=12 / 64,
)
slip(
    "level13.worksheet.occupancy_percent",
    "of_all_blocks",
    "6.25: blocks were divided by blocks; occupancy counts warps.",
    value=100 * 2 / 32,
)
slip(
    "level13.worksheet.load_share",
    "one_sector_each",
    "37.5: each lane moved one sector; every fourth reaches into the next one.",
    value=100 * 12 / 32,
)
slip(
    "level13.worksheet.load_share",
    "all_between",
    "16.67: all that lies between the lanes was moved; a sector that nobody wants stays where it is.",
    value=100 * 12 / 72,
)
slip(
    "level13.worksheet.load_share",
    "nothing_wasted",
    "100: only what was asked for moved; whole sectors do.",
    value=100,
)
slip(
    "level13.worksheet.load_share",
    "lines",
    "9.375: each lane moved 128 bytes; the unit is a sector of 32.",
    value=100 * 12 / 128,
)
slip(
    "level13.worksheet.load_share",
    "two_sectors_each",
    "18.75: each lane moved two sectors; only every fourth does.",
    value=100 * 12 / 64,
)
slip(
    "level13.worksheet.load_share",
    "fraction",
    "0.3: that is the fraction; asked is the percentage.",
    value=0.3,
)
slip(
    "level13.worksheet.load_share",
    "inverse",
    "3.333: that is how often more moves than is asked for; the share is its inverse.",
    value=10 / 3,
)
slip(
    "level13.worksheet.load_share",
    "sectors",
    "40: those are the sectors; asked is what share of their bytes is wanted.",
    value=40,
)
slip(
    "level13.worksheet.load_share",
    "four_bytes",
    "10: each lane asked for 4 bytes; it is 12.",
    value=100 * 32 * 4 / (40 * 32),
)
slip(
    "level13.worksheet.bank_cycles",
    "all_lanes",
    "16: 16 words are wanted, 8 of each of two banks; banks work side by side, and a word goes to all who want it.",
    value=16,
)
slip(
    "level13.worksheet.bank_cycles",
    "one_after_the_other",
    "32: lanes went one after the other; a bank gives its word to all who want it, and banks work at once.",
    value=32,
)
slip(
    "level13.worksheet.bank_cycles",
    "banks",
    "2: those are the banks that are used; asked is how many words the busiest has to give.",
    value=2,
)
slip(
    "level13.worksheet.bank_cycles",
    "no_conflict",
    "1: all at once would be 16 rows in 16 banks; 48 is a multiple of 16, so only two banks are used.",
    value=1,
)
slip(
    "level13.worksheet.bank_cycles",
    "excess",
    "7: the first of a bank's words takes a cycle as well.",
    value=7,
)
slip(
    "level13.worksheet.bank_cycles",
    "sum_of_excess",
    "14: conflicts of both banks were added; they work side by side.",
    value=14,
)
slip(
    "level13.worksheet.bank_cycles",
    "banks_as_rows",
    "4: four banks were used; 48 r modulo 32 is 0 or 16.",
    value=4,
)
slip(
    "level13.worksheet.traffic_mb",
    "each_once",
    "14.19: each matrix moved once; each tile of the result reads its own rows and columns again.",
    value=2 * (A + B + C) / 1e6,
)
slip(
    "level13.worksheet.traffic_mb",
    "swapped",
    "94.06: the counts were swapped; the left matrix is read once for each column of tiles, 12 times.",
    value=2 * (7 * A + 12 * B + C) / 1e6,
)
slip(
    "level13.worksheet.traffic_mb",
    "rounded_down",
    "65.39: ragged tiles were left out; they read as well.",
    value=2 * (11 * A + 6 * B + C) / 1e6,
)
slip(
    "level13.worksheet.traffic_mb",
    "not_rounded",
    "68.4: parts of tiles were counted; a ragged tile reads all of its rows and columns, 12 and 7 times in all.",
    value=2 * (3000 / 256 * A + 1000 / 160 * B + C) / 1e6,
)
slip(
    "level13.worksheet.traffic_mb",
    "padded",
    "78.45: padding was moved; a ragged tile loads what there is.",
    value=2 * (1120 * 1024 * 12 + 1024 * 3072 * 7 + 1120 * 3072) / 1e6,
)
slip(
    "level13.worksheet.traffic_mb",
    "no_result",
    "67.58: the result was left out; it is written once.",
    value=2 * (12 * A + 7 * B) / 1e6,
)
slip(
    "level13.worksheet.traffic_mb",
    "elements",
    "36.79: those are elements, in millions; bfloat16 takes two bytes for each.",
    value=(12 * A + 7 * B + C) / 1e6,
)
slip(
    "level13.worksheet.traffic_mb",
    "mebibytes",
    "70.18: those are MiB; a MB is 1e6 bytes.",
    value=2 * (12 * A + 7 * B + C) / 1024**2,
)
slip(
    "level13.worksheet.traffic_mb",
    "bits",
    "588.7: those are megabits.",
    value=16 * (12 * A + 7 * B + C) / 1e6,
)
slip(
    "level13.worksheet.traffic_mb",
    "no_tiles",
    "12,294: that is without tiles, each element of the result by itself.",
    value=2 * (2 * 1000 * 3000 * 1024 + C) / 1e6,
)
slip(
    "level13.worksheet.gemm_us",
    "bytes_only",
    "65.37: those are the bytes; the arithmetic of two waves takes longer.",
    value=1e6 * MOVED / 864e9,
)
slip(
    "level13.worksheet.gemm_us",
    "both_added",
    "170.7: bytes and arithmetic were added; they overlap, and the longer one decides.",
    value=1e6 * MOVED / 864e9 + 2 * WAVE,
)
slip(
    "level13.worksheet.gemm_us",
    "one_wave",
    "52.65: that is one wave; 144 tiles are two more than there are SMs. Or it is two waves of MACs; a MAC is two FLOPs.",
    value=WAVE,
)
slip(
    "level13.worksheet.gemm_us",
    "tiles_only",
    "53.39: those are the tiles without the SMs that wait in the second wave; it takes as long as the first.",
    value=144 / 142 * WAVE,
)
slip(
    "level13.worksheet.gemm_us",
    "useful_flops",
    "41.71: only useful FLOPs were counted; padding and SMs that wait take their time as well.",
    value=1e6 * 2 * 300 * 4096 * 6144 / 362e12,
)
slip(
    "level13.worksheet.gemm_us",
    "sms_of_an_h100",
    "97.88: those are 132 SMs, an H100's; here it is 142.",
    value=132 / 142 * 2 * WAVE,
)
slip(
    "level13.worksheet.gemm_us",
    "rate_of_an_sm",
    "14,952: all SMs' work was done at the rate of one; 362 TFLOP/s is what they do together.",
    value=142 * 2 * WAVE,
)
slip(
    "level13.worksheet.gemm_us",
    "microseconds",
    "0.0001053: those are seconds.",
    value=2e-6 * WAVE,
)
slip(
    "level13.worksheet.gemm_us",
    "milliseconds",
    "0.1053: those are milliseconds.",
    value=2e-3 * WAVE,
)
