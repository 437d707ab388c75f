"""Level 13 by hand: eight numbers of two machines.

Put your answer in place of each `...`: a number, or an expression such as `2 * 576 * 1536`. `...` means not answered
yet. An answer counts as right within 1%, so three or four digits are enough.

The GPU of 3, 4 and 8 is an L40S: 142 SMs, 864 GB/s, 362 TFLOP/s in bfloat16. bfloat16 takes 2 bytes; MB = 1e6 bytes, GB
= 1e9 bytes. Warps have 32 lanes, memory moves sectors of 32 bytes, and 32 banks have words of 4 bytes.
"""

from math import ceil

# 1. 24 tokens go through a matrix with 2,048 inputs and 5,700 outputs, on an array of 256 x 256 cells. A tile of the
#    weights moves in a row a cycle, and nothing overlaps. How many cycles does it take? (4 digits)
array_cycles = ceil(2048 / 256) * ceil(5700 / 256) * (256 + 24 + 256 + 256 - 2)  # 184 tiles of 790

# 2. After a load a warp can go on 455 cycles later, and has then 9 instructions that need it, one after the other,
#    before its next load. How many such warps fill every cycle of a scheduler? (a whole number)
warps_needed = ceil((455 + 9) / (1 + 9))  # 10 instructions in a turn of 464 cycles

# 3. The answer of the L40S's memory takes 720 ns, there and back. How many loads of a warp, 4 bytes for each lane, must
#    be under way in each SM to use the whole bandwidth? (a whole number)
loads_in_flight = ceil(864e9 * 720e-9 / 142 / (32 * 4))  # 4,381 bytes for an SM

# 4. Blocks of 180 threads with 100 registers each and 30,000 bytes of shared memory, on an SM as in occupancy.py (64
#    warps, 32 blocks, 65,536 registers in 4 partitions, 228 KiB). What is the occupancy, in percent? (4 digits)
occupancy_percent = 100 * (4 * (16384 // 3328) // 6 * 6) / 64  # 4 warps in each partition, 2 blocks of 6

# 5. Lane i of a warp loads 12 bytes from address 8 + 72 i on. What share of the bytes that move is asked for, in
#    percent? (2 digits)
load_share = 100 * 32 * 12 / (32 * (32 + 8))  # every fourth lane reaches into a second sector

# 6. A tile in shared memory has rows of 48 words. Lanes 2 r and 2 r + 1 of a warp want the same word, that of row r in
#    column 5, for 16 rows. How many cycles does it take? (a whole number)
bank_cycles = 16 / 2  # 48 r is 0 or 16 modulo 32: two banks, eight words in each

# 7. (1,000, 1,024) times (1,024, 3,000) in bfloat16, in tiles of 160 x 256 of the result. Nothing stays on the chip
#    from tile to tile. How many MB move, with the result? (4 digits)
traffic_mb = 2 * (1000 * 1024 * ceil(3000 / 256) + 1024 * 3000 * ceil(1000 / 160) + 1000 * 3000) / 1e6  # 12 and 7 times

# 8. 300 tokens through a matrix with 4,096 inputs and 6,144 outputs on the L40S, in bfloat16. Tiles are 128 x 128, one
#    on each SM; each matrix moves once. How many microseconds does it take at least? (4 digits)
gemm_us = ceil(3 * 48 / 142) * 142 * 2 * 128 * 128 * 4096 / 362e12 * 1e6  # 144 tiles are two waves; 65.37 for the bytes
