#include "ir/attributes.h"

#include <string.h>

int lj_attribute_slots(lj_op op, lj_attribute_slot *slots)
{
    int count = 0;
    for (const char *at = lj_op_rows[op].attributes; *at && count < LJ_MAX_ATTRIBUTES;) {
        const char *colon = strchr(at, ':');
        slots[count] = (lj_attribute_slot){at, (int)(colon - at), colon[1], 0};
        at = colon + 2;
        if (*at >= '0' && *at <= '9') slots[count].index = *at++ - '0';
        count++;
        while (*at == ' ') at++;
    }
    return count;
}
