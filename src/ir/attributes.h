/* Reads the attribute column of ops.def: which slots an op uses and what they are called. */
#ifndef LJ_IR_ATTRIBUTES_H
#define LJ_IR_ATTRIBUTES_H

#include "ir/ir.h"

enum { LJ_MAX_ATTRIBUTES = 8 };

typedef struct {
    const char *name;
    int name_length;
    char kind; /* i, f, p (a permutation in i[0..rank-1]), s */
    int index; /* of i or f */
} lj_attribute_slot;

/* Fills the slots of an op in order, returns their number. */
int lj_attribute_slots(lj_op op, lj_attribute_slot *slots);

#endif
