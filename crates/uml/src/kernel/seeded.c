/* Feeds the random numbers of a user-mode kernel from the seed in JEXT_SEED (SplitMix64). */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

static uint64_t state;
static int has_state;

ssize_t getrandom(void *buffer, size_t length, unsigned int flags)
{
	unsigned char *bytes = buffer;
	size_t done = 0;

	(void)flags;
	if (!has_state) {
		const char *seed = getenv("JEXT_SEED");

		state = seed ? strtoull(seed, NULL, 10) : 0;
		has_state = 1;
	}
	while (done < length) {
		uint64_t word = state += 0x9e3779b97f4a7c15ULL;
		size_t count = length - done < sizeof word ? length - done : sizeof word;

		word = (word ^ word >> 30) * 0xbf58476d1ce4e5b9ULL;
		word = (word ^ word >> 27) * 0x94d049bb133111ebULL;
		word ^= word >> 31;
		memcpy(bytes + done, &word, count);
		done += count;
	}
	return (ssize_t)length;
}
