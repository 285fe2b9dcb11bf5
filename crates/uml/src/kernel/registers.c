/*
 * Restores the registers of a guest's processes on a host whose processor has more of them than
 * user-mode Linux 6.1 keeps.
 *
 * The kernel keeps 2,696 bytes of XSAVE state, up to AVX-512 and PKRU. Linux accepts only the whole
 * state (PTRACE_SETREGSET with NT_X86_XSTATE), which has 11,008 bytes on a processor with AMX; a
 * guest's first process was killed for that. What the kernel keeps is complete: a guest's process
 * has no permission for AMX.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

#define PEEK_FIRST 1
#define PEEK_LAST 3
#define GET_REGISTERS 0x4204
#define SET_REGISTERS 0x4205
#define XSTATE 0x202

/* The largest state of any processor that Linux 6.18 knows is smaller. */
#define STATE_MAX (64 << 10)
/* Offset of the word that says which parts of the state are in use. */
#define IN_USE 512
/* The parts that lie within 2,696 bytes: up to PKRU. */
#define KEPT ((UINT64_C(1) << 10) - 1)

/* Static: a kernel's stack has no room for them. Only its one thread restores registers. */
static unsigned char state[STATE_MAX];
static size_t state_length;

static long restore(pid_t pid, const struct iovec *kept)
{
	struct iovec whole = { state, sizeof state };
	uint64_t in_use;
	long result;

	if (!state_length) {
		result = syscall(SYS_ptrace, GET_REGISTERS, pid, XSTATE, &whole);
		if (result < 0)
			return result;
		state_length = whole.iov_len;
	}
	if (kept->iov_len >= state_length || kept->iov_len < IN_USE + sizeof in_use)
		return syscall(SYS_ptrace, SET_REGISTERS, pid, XSTATE, kept);
	memcpy(state, kept->iov_base, kept->iov_len);
	memset(state + kept->iov_len, 0, state_length - kept->iov_len);
	memcpy(&in_use, state + IN_USE, sizeof in_use);
	in_use &= KEPT;
	memcpy(state + IN_USE, &in_use, sizeof in_use);
	whole.iov_len = state_length;
	return syscall(SYS_ptrace, SET_REGISTERS, pid, XSTATE, &whole);
}

long ptrace(int request, ...)
{
	va_list arguments;
	pid_t pid;
	void *address, *data;
	long result, word;

	va_start(arguments, request);
	pid = va_arg(arguments, pid_t);
	address = va_arg(arguments, void *);
	data = va_arg(arguments, void *);
	va_end(arguments);
	if (request == SET_REGISTERS && (uintptr_t)address == XSTATE)
		return restore(pid, data);
	if (request < PEEK_FIRST || request > PEEK_LAST)
		return syscall(SYS_ptrace, request, pid, address, data);
	/* The system call stores the word that the function returns. */
	result = syscall(SYS_ptrace, request, pid, address, &word);
	if (result < 0)
		return result;
	errno = 0;
	return word;
}
