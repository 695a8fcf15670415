// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Recorder of an emulated board: a plugin of QEMU (API 1) for counted mode with one processor.
 *
 * The guest's time is the number of instructions that it has executed, plus the jumps of its clock
 * while its processor halts. The recorder counts the former itself, and takes the latter from
 * QEMU. It executes nothing in the guest, so what the guest does and measures stays the same.
 *
 * It writes the guest's reads of its counter in user space (anchors: the host knows the time that
 * they returned), the changes of tasks, and in the windows that the host asks for every block of
 * instructions that began, with the first argument of functions. src/rtgauge/causes/ reads what
 * it writes.
 *
 * Arguments: record=FILE (written), control=FILE (shared with the host, struct recorder_control).
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* --- the part of QEMU's plugin interface that is used (include/qemu/qemu-plugin.h, API 1) --- */

#define EXPORT __attribute__((visibility("default")))

typedef uint64_t qemu_plugin_id_t;

struct qemu_plugin_tb;
struct qemu_plugin_insn;

typedef struct {
	const char *target_name;
	struct {
		int min, cur;
	} version;
	bool system_emulation;
} qemu_info_t;

typedef void (*qemu_plugin_vcpu_tb_trans_cb_t)(qemu_plugin_id_t, struct qemu_plugin_tb *);
typedef void (*qemu_plugin_vcpu_udata_cb_t)(unsigned int, void *);
typedef void (*qemu_plugin_vcpu_mem_cb_t)(unsigned int, uint32_t, uint64_t, void *);

enum { QEMU_PLUGIN_CB_NO_REGS };
enum { QEMU_PLUGIN_MEM_RW = 3 };
enum { QEMU_PLUGIN_INLINE_ADD_U64 };

void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t, qemu_plugin_vcpu_tb_trans_cb_t);
void qemu_plugin_register_vcpu_tb_exec_cb(struct qemu_plugin_tb *, qemu_plugin_vcpu_udata_cb_t, int,
					  void *);
void qemu_plugin_register_vcpu_insn_exec_inline(struct qemu_plugin_insn *, int, void *, uint64_t);
void qemu_plugin_register_vcpu_insn_exec_cb(struct qemu_plugin_insn *, qemu_plugin_vcpu_udata_cb_t,
					    int, void *);
void qemu_plugin_register_vcpu_mem_cb(struct qemu_plugin_insn *, qemu_plugin_vcpu_mem_cb_t, int,
				      int, void *);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *);
uint64_t qemu_plugin_tb_vaddr(const struct qemu_plugin_tb *);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *, size_t);
const void *qemu_plugin_insn_data(const struct qemu_plugin_insn *);
size_t qemu_plugin_insn_size(const struct qemu_plugin_insn *);
uint64_t qemu_plugin_insn_vaddr(const struct qemu_plugin_insn *);

EXPORT extern int qemu_plugin_version;
EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info, int argc, char **argv);

int qemu_plugin_version = 1;

/* --- what is shared with the host (src/rtgauge/causes/recording.py) --- */

#define RECORDER_VERSION 3
#define RECORDER_WINDOWS 4096
#define RECORDER_GROWTH (16UL << 20)
#define RECORDER_QUIET 10000 /* instructions after which to look for windows again */
/* struct TimersState of QEMU 7.2 (softmmu/timers-state.h), and its qemu_icount_bias */
#define RECORDER_TIMERS_BYTES 96
#define RECORDER_TIMERS_BIAS 40
#define RECORDER_TASK_BYTES 16384
#define RECORDER_TASK_ALIGN 64 /* of a task_struct; an instruction may store two registers */

/* Registers of a function's first argument, as numbered for a debugger: rdi, and x0. */
enum { ARGUMENT_X86 = 5, ARGUMENT_ARM = 0 };

enum record_kind {
	RECORD_BLOCK = 0,  /* a block of instructions began */
	RECORD_ANCHOR = 1, /* user space read the counter, or in a window the kernel */
	RECORD_FROM = 2,   /* the task that ran before, as the address of its task_struct */
	RECORD_TO = 3,	   /* the task that runs next */
	RECORD_TASK = 4,   /* the bytes of a task_struct follow, `length` of them */
	RECORD_JUMP = 5,   /* the clock had jumped: the processor was halted until now */
};

/* How the last instruction of a block leaves it. */
enum record_end {
	END_OTHER,
	END_CALL,
	END_RETURN,
	END_EXCEPTION_RETURN,
	END_SYSCALL_RETURN,
	END_SYSCALL,
	END_HALT,
};

struct record {
	uint64_t ns;
	uint64_t address;
	uint64_t after;	   /* address behind the block: where a call returns to */
	uint16_t length;   /* instructions of the block; bytes of a task */
	uint8_t kind, end; /* enum record_kind, record_end */
	uint32_t argument; /* lower half of the register of a function's first argument */
};

/* As declared by glib, which QEMU is linked with. */
struct bytes {
	uint8_t *data;
	unsigned int length;
};

struct recorder_control {
	uint32_t version;
	uint32_t windows; /* in use */
	uint64_t next;	  /* window that begins next, or that has begun */
	uint64_t filled;  /* bytes of the record */
	uint64_t lost;	  /* records that had no room */
	uint64_t loaded;  /* 1: QEMU has loaded this */
	struct {
		uint64_t from_ns, to_ns;
	} window[RECORDER_WINDOWS];
};

struct block {
	uint64_t address, after;
	uint32_t length;
	uint16_t end;
};

static struct {
	struct recorder_control *control;
	int file;
	char *map;
	size_t mapped;
	uint64_t executed;   /* instructions */
	int64_t jumped;	     /* ns that the clock ran while the processor was halted */
	const int64_t *bias; /* QEMU's own count of them */
	uint64_t quiet;	     /* instructions: no window begins before as many were executed */
	uint64_t expected;   /* where the last block in a window would go on */
	bool halted, arm, inside;
	uint64_t task;
	struct bytes *value;
	void *(*get_cpu)(int);
	int (*read_memory)(void *, uint64_t, void *, uint64_t, bool);
	int (*read_register)(void *, struct bytes *, int);
	struct bytes *(*set_size)(struct bytes *, unsigned int);
} recorder;

static uint64_t now_ns(void)
{
	return recorder.executed + recorder.jumped;
}

static void *room(size_t bytes)
{
	struct recorder_control *control = recorder.control;

	while (control->filled + bytes > recorder.mapped) {
		size_t size = recorder.mapped + RECORDER_GROWTH;
		void *map;

		if (posix_fallocate(recorder.file, 0, size))
			goto full;
		map = recorder.map ? mremap(recorder.map, recorder.mapped, size, MREMAP_MAYMOVE) :
				     mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED,
					  recorder.file, 0);
		if (map == MAP_FAILED)
			goto full;
		recorder.map = map;
		recorder.mapped = size;
	}
	control->filled += bytes;
	return recorder.map + control->filled - bytes;
full:
	control->lost++;
	return NULL;
}

static void put(enum record_kind kind, uint64_t address, uint64_t after, uint16_t length,
		enum record_end end)
{
	struct record *record = room(sizeof(*record));

	if (record)
		*record = (struct record){ now_ns(), address, after, length, kind, end, 0 };
}

/*
 * The first argument, if a function begins here. QEMU keeps the registers of the guest in memory
 * between two blocks.
 */
static uint32_t argument(void)
{
	uint32_t low = 0;
	void *cpu = recorder.get_cpu(0);

	recorder.set_size(recorder.value, 0);
	if (cpu && recorder.read_register(cpu, recorder.value,
					  recorder.arm ? ARGUMENT_ARM : ARGUMENT_X86) >= 8)
		memcpy(&low, recorder.value->data, sizeof(low));
	return low;
}

static void put_block(const struct block *block)
{
	struct record *record = room(sizeof(*record));
	bool jumped = block->address != recorder.expected && block->address >> 63;

	recorder.expected = block->after;
	if (record)
		*record = (struct record){
			now_ns(),     block->address, block->after,	      block->length,
			RECORD_BLOCK, block->end,     jumped ? argument() : 0
		};
}

/* The bytes of a task's task_struct, as it is now: names and priorities are in it. */
static void put_task(uint64_t task)
{
	struct record *record = room(sizeof(*record) + RECORDER_TASK_BYTES);
	void *cpu = recorder.get_cpu(0);
	uint32_t length = 0;

	if (!record)
		return;
	/* the page behind a task_struct may be missing */
	while (cpu && length < RECORDER_TASK_BYTES &&
	       !recorder.read_memory(cpu, task + length, (char *)(record + 1) + length, 512, false))
		length += 512;
	*record = (struct record){ now_ns(), task, 0, length, RECORD_TASK, END_OTHER, 0 };
}

/* True in a window. */
static bool wanted(void)
{
	struct recorder_control *control = recorder.control;
	uint64_t now = now_ns();

	while (control->next < control->windows && now > control->window[control->next].to_ns) {
		control->next++;
		recorder.inside = false;
	}
	if (control->next >= control->windows || now < control->window[control->next].from_ns)
		return false;
	if (!recorder.inside) {
		recorder.inside = true;
		put(RECORD_TO, recorder.task, 0, 0, END_OTHER);
		if (recorder.task)
			put_task(recorder.task);
	}
	return true;
}

/* Most blocks are outside of the windows: no more than one comparison is made for them. */
static void on_block(unsigned int cpu, void *data)
{
	const struct block *block = data;
	struct recorder_control *control = recorder.control;
	uint64_t until = RECORDER_QUIET;

	(void)cpu;
	if (recorder.executed < recorder.quiet)
		return;
	if (recorder.halted) {
		recorder.halted = false;
		if (*recorder.bias != recorder.jumped) {
			recorder.jumped = *recorder.bias;
			if (wanted())
				put(RECORD_JUMP, 0, 0, 0, END_OTHER);
		}
	}
	if (wanted()) {
		put_block(block);
		return;
	}
	if (control->next < control->windows &&
	    control->window[control->next].from_ns - now_ns() < until)
		until = control->window[control->next].from_ns - now_ns();
	recorder.quiet = recorder.executed + until;
}

/* A block that halts the processor: the clock may jump before the next one. */
static void on_halting_block(unsigned int cpu, void *data)
{
	recorder.quiet = 0;
	on_block(cpu, data);
	recorder.quiet = 0;
	recorder.halted = true;
}

static void on_counter(unsigned int cpu, void *data)
{
	(void)cpu;
	if ((uint64_t)data >> 63 && !wanted())
		return;
	put(RECORD_ANCHOR, (uint64_t)data, 0, 0, END_OTHER);
}

/* The two accesses of a change of tasks: to where the one's registers are kept, and the other's. */
static uint64_t task_at(uint64_t address, const void *offset)
{
	return (address - (uint64_t)offset) & ~(uint64_t)(RECORDER_TASK_ALIGN - 1);
}

static void on_from(unsigned int cpu, uint32_t info, uint64_t address, void *offset)
{
	(void)cpu;
	(void)info;
	if (wanted())
		put(RECORD_FROM, task_at(address, offset), 0, 0, END_OTHER);
}

static void on_to(unsigned int cpu, uint32_t info, uint64_t address, void *offset)
{
	(void)cpu;
	(void)info;
	if (recorder.task == task_at(address, offset))
		return;
	recorder.task = task_at(address, offset);
	if (wanted()) {
		put(RECORD_TO, recorder.task, 0, 0, END_OTHER);
		put_task(recorder.task);
	}
}

static enum record_end end_arm(uint32_t word)
{
	if (word == 0xd503207f || word == 0xd503205f) /* wfi, wfe */
		return END_HALT;
	if (word >> 26 == 0x25 || (word & 0xfffff800) == 0xd63f0800 ||
	    (word & 0xfffffc1f) == 0xd63f0000) /* bl, blra, blr */
		return END_CALL;
	if ((word & 0xfffffc1f) == 0xd65f0000 || (word & 0xfffffbff) == 0xd65f0bff) /* ret */
		return END_RETURN;
	if (word == 0xd69f03e0) /* eret */
		return END_EXCEPTION_RETURN;
	if ((word & 0xffe0001f) == 0xd4000001) /* svc */
		return END_SYSCALL;
	return END_OTHER;
}

static bool prefix_x86(uint8_t byte)
{
	return byte == 0xf2 || byte == 0xf3 || byte == 0x2e || byte == 0x3e || byte == 0x66 ||
	       (byte & 0xf0) == 0x40;
}

static enum record_end end_x86(const uint8_t *code, size_t size)
{
	size_t at = 0;
	uint8_t second, third;

	while (at < size && prefix_x86(code[at]))
		at++;
	if (at >= size)
		return END_OTHER;
	second = at + 1 < size ? code[at + 1] : 0;
	third = at + 2 < size ? code[at + 2] : 0;
	switch (code[at]) {
	case 0xe8:
		return END_CALL;
	case 0xff:
		return (second >> 3 & 7) == 2 ? END_CALL : END_OTHER;
	case 0xc2:
	case 0xc3:
	case 0xca:
	case 0xcb:
		return END_RETURN;
	case 0xcf:
		return END_EXCEPTION_RETURN;
	case 0xf4:
		return END_HALT;
	case 0x0f:
		if (second == 0x05)
			return END_SYSCALL;
		if (second == 0x07)
			return END_SYSCALL_RETURN;
		if (second == 0x01 && third == 0xc9) /* mwait */
			return END_HALT;
		return END_OTHER;
	default:
		return END_OTHER;
	}
}

/*
 * Whether an instruction may end its block before the instructions behind it: it accesses memory,
 * or is not one of those that only compute. A block that never ends early is counted as one.
 */
static bool may_stop_arm(uint32_t word)
{
	uint32_t group = word >> 25 & 0xf;

	if (group == 0x8 || group == 0x9) /* data processing with a constant */
		return false;
	/* data processing of registers, but for the group of pointer authentication */
	return (group != 0x5 && group != 0xd) || (word >> 21 & 0xff) == 0xd6;
}

/* An instruction behind the byte 0x0f. */
static bool may_stop_x86_two(const uint8_t *code, size_t size)
{
	bool registers = size > 1 && code[1] >> 6 == 3;

	switch (code[0]) {
	case 0x1f:	    /* nop */
	case 0x80 ... 0x8f: /* jumps on a condition */
		return false;
	case 0x40 ... 0x4f: /* cmov */
	case 0x90 ... 0x9f: /* set */
	case 0xa3:	    /* bt */
	case 0xaf:	    /* imul */
	case 0xb6 ... 0xb7: /* movzx */
	case 0xba:	    /* bt with a constant */
	case 0xbe ... 0xbf: /* movsx */
		return !registers;
	default:
		return true;
	}
}

static bool may_stop_x86(const uint8_t *code, size_t size)
{
	bool registers;
	uint8_t first, middle;
	size_t at = 0;

	while (at < size && prefix_x86(code[at]))
		at++;
	if (at + 1 >= size)
		return true;
	first = code[at];
	if (first == 0x0f)
		return may_stop_x86_two(code + at + 1, size - at - 1);
	registers = code[at + 1] >> 6 == 3; /* no operand in memory, if this is a ModRM byte */
	middle = code[at + 1] >> 3 & 7;
	switch (first) {
	case 0x00 ... 0x3f: /* add or adc sbb and sub xor cmp */
		return (first & 7) > 5 || ((first & 7) < 4 && !registers);
	case 0x70 ... 0x7f: /* jumps on a condition */
	case 0xa8 ... 0xa9: /* test with a constant */
	case 0xb0 ... 0xbf: /* mov of a constant */
	case 0xe9:
	case 0xeb: /* jmp */
		return false;
	case 0x63: /* movsxd */
	case 0x69: /* imul */
	case 0x6b:
	case 0x80 ... 0x81: /* add or adc sbb and sub xor cmp with a constant */
	case 0x83 ... 0x8b: /* test xchg mov */
	case 0xc0 ... 0xc1: /* shifts */
	case 0xd0 ... 0xd3:
		return !registers;
	case 0xc6 ... 0xc7: /* mov of a constant */
		return !registers || middle;
	case 0x8d: /* lea */
		return registers;
	case 0xf6 ... 0xf7: /* test not neg mul; div divides by zero */
		return !registers || middle > 5;
	case 0xfe ... 0xff: /* inc dec */
		return !registers || middle > 1;
	default:
		return true;
	}
}

static bool may_stop(const uint8_t *code, size_t size)
{
	uint32_t word;

	if (!recorder.arm)
		return may_stop_x86(code, size);
	memcpy(&word, code, sizeof(word));
	return may_stop_arm(word);
}

/* Whether an instruction reads the counter that the clock is made of. */
static bool reads_counter(const uint8_t *code, size_t size)
{
	uint32_t word;

	if (recorder.arm) {
		memcpy(&word, code, sizeof(word));
		return (word & 0xffffffe0) == 0xd53be040; /* mrs x, cntvct_el0 */
	}
	return size >= 2 && code[0] == 0x0f &&
	       (code[1] == 0x31 || (size >= 3 && code[1] == 0x01 && code[2] == 0xf9));
}

/*
 * The change of tasks is known by its code, which no other function has:
 * __switch_to_asm: mov %rsp,THREAD(%rdi); mov THREAD(%rsi),%rsp
 * cpu_switch_to: mov x10,#THREAD; add x8,x0,x10; mov x9,sp; stp ... add x8,x1,x10; ldp
 */
static void find_switch(const struct qemu_plugin_tb *tb, size_t count)
{
	static const uint8_t store[] = { 0x48, 0x89, 0xa7 }, load[] = { 0x48, 0x8b, 0xa6 };
	struct qemu_plugin_insn *from = NULL, *to = NULL;
	uint64_t offset = 0;

	for (size_t i = 0; i + 1 < count; i++) {
		struct qemu_plugin_insn *one = qemu_plugin_tb_get_insn(tb, i);
		struct qemu_plugin_insn *two = qemu_plugin_tb_get_insn(tb, i + 1);
		const uint8_t *a = qemu_plugin_insn_data(one), *b = qemu_plugin_insn_data(two);
		uint32_t word, next, disp;

		if (recorder.arm) {
			memcpy(&word, a, sizeof(word));
			memcpy(&next, b, sizeof(next));
			if ((word & 0xffe0001f) == 0xd280000a && next == 0x8b0a0008 &&
			    i + 3 < count) {
				offset = word >> 5 & 0xffff;
				from = qemu_plugin_tb_get_insn(tb, i + 3);
			}
			if (from && word == 0x8b0a0028)
				to = two;
		} else if (qemu_plugin_insn_size(one) == 7 && qemu_plugin_insn_size(two) == 7 &&
			   !memcmp(a, store, 3) && !memcmp(b, load, 3) &&
			   !memcmp(a + 3, b + 3, 4)) {
			memcpy(&disp, a + 3, sizeof(disp));
			offset = disp;
			from = one;
			to = two;
		}
	}
	if (!from || !to)
		return;
	qemu_plugin_register_vcpu_mem_cb(from, on_from, QEMU_PLUGIN_CB_NO_REGS, QEMU_PLUGIN_MEM_RW,
					 (void *)offset);
	qemu_plugin_register_vcpu_mem_cb(to, on_to, QEMU_PLUGIN_CB_NO_REGS, QEMU_PLUGIN_MEM_RW,
					 (void *)offset);
}

static void on_translated(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
	size_t count = qemu_plugin_tb_n_insns(tb), size;
	struct block *block = calloc(1, sizeof(*block)); /* lives as long as QEMU */
	struct qemu_plugin_insn *insn;
	const uint8_t *code;
	uint32_t word;

	(void)id;
	if (!block || !count)
		return;
	insn = qemu_plugin_tb_get_insn(tb, count - 1);
	code = qemu_plugin_insn_data(insn);
	size = qemu_plugin_insn_size(insn);
	memcpy(&word, code, sizeof(word));
	*block = (struct block){
		.address = qemu_plugin_tb_vaddr(tb),
		.after = qemu_plugin_insn_vaddr(insn) + size,
		.length = count,
		.end = recorder.arm ? end_arm(word) : end_x86(code, size),
	};
	qemu_plugin_register_vcpu_tb_exec_cb(tb,
					     block->end == END_HALT ? on_halting_block : on_block,
					     QEMU_PLUGIN_CB_NO_REGS, block);
	/*
	 * Instructions that only compute are counted with the next one that may stop. QEMU drops
	 * the last one again if it crosses a page, so the one before it may be the last.
	 */
	for (size_t i = 0, counted = 0; i < count; i++) {
		insn = qemu_plugin_tb_get_insn(tb, i);
		code = qemu_plugin_insn_data(insn);
		size = qemu_plugin_insn_size(insn);
		if (i + 2 >= count || may_stop(code, size)) {
			qemu_plugin_register_vcpu_insn_exec_inline(insn, QEMU_PLUGIN_INLINE_ADD_U64,
								   &recorder.executed,
								   i + 1 - counted);
			counted = i + 1;
		}
		if (reads_counter(code, size))
			qemu_plugin_register_vcpu_insn_exec_cb(
				insn, on_counter, QEMU_PLUGIN_CB_NO_REGS,
				(void *)qemu_plugin_insn_vaddr(insn));
	}
	if (block->address >> 63)
		find_switch(tb, count);
}

/* QEMU's count of the jumps: a field of its TimersState, whose size tells whether it is known. */
static const int64_t *find_bias(void)
{
	void *timers = dlsym(RTLD_DEFAULT, "timers_state");
	const ElfW(Sym) *symbol = NULL;
	Dl_info info;

	if (!timers || !dladdr1(timers, &info, (void **)&symbol, RTLD_DL_SYMENT) || !symbol ||
	    symbol->st_size != RECORDER_TIMERS_BYTES)
		return NULL;
	return (const int64_t *)((const char *)timers + RECORDER_TIMERS_BIAS);
}

static int refuse(const char *why)
{
	fprintf(stderr, "recorder: %s\n", why);
	return 1;
}

int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info, int argc, char **argv)
{
	const char *record = NULL, *control = NULL;
	struct bytes *(*make)(void);
	int file;

	for (int i = 0; i < argc; i++) {
		if (!strncmp(argv[i], "record=", 7))
			record = argv[i] + 7;
		if (!strncmp(argv[i], "control=", 8))
			control = argv[i] + 8;
	}
	if (!record || !control || !info->system_emulation)
		return refuse("its arguments are incomplete");
	recorder.arm = strstr(info->target_name, "aarch64");
	recorder.bias = find_bias();
	*(void **)&recorder.get_cpu = dlsym(RTLD_DEFAULT, "qemu_get_cpu");
	*(void **)&recorder.read_memory = dlsym(RTLD_DEFAULT, "cpu_memory_rw_debug");
	*(void **)&recorder.read_register =
		dlsym(RTLD_DEFAULT,
		      recorder.arm ? "aarch64_cpu_gdb_read_register" : "x86_cpu_gdb_read_register");
	*(void **)&make = dlsym(RTLD_DEFAULT, "g_byte_array_new");
	*(void **)&recorder.set_size = dlsym(RTLD_DEFAULT, "g_byte_array_set_size");
	if (!recorder.bias || !recorder.get_cpu || !recorder.read_memory ||
	    !recorder.read_register || !make || !recorder.set_size)
		return refuse("this QEMU does not export what it needs");
	recorder.value = make();
	file = open(control, O_RDWR | O_CLOEXEC);
	recorder.file = open(record, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (file < 0 || recorder.file < 0)
		return refuse("its files cannot be opened");
	recorder.control =
		mmap(NULL, sizeof(*recorder.control), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	close(file);
	if (recorder.control == MAP_FAILED || recorder.control->version != RECORDER_VERSION)
		return refuse("its control file is of another version");
	recorder.control->loaded = 1;
	qemu_plugin_register_vcpu_tb_trans_cb(id, on_translated);
	return 0;
}
