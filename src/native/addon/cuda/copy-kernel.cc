#include "copy-kernel.h"

namespace kvtier::cuda {

const char* const COPY_KERNEL_NAME = "kvtier_copy_pieces";

// void kvtier_copy_pieces(const KernelCopy* copies, unsigned count)
// Thread block b does copies b, b + grid, ...; its threads take words of 16 bytes in turn, four loads under way each.
const char* const COPY_KERNEL_PTX = R"ptx(
.version 6.4
.target sm_70
.address_size 64

.visible .entry kvtier_copy_pieces(.param .u64 copies, .param .u32 count)
{
  .reg .pred %p<4>;
  .reg .b32 %r<8>;
  .reg .b32 %w<16>;
  .reg .b64 %d<20>;

  ld.param.u64 %d1, [copies];
  cvta.to.global.u64 %d1, %d1;
  ld.param.u32 %r1, [count];
  mov.u32 %r2, %ctaid.x;
  mov.u32 %r3, %nctaid.x;
  mov.u32 %r4, %tid.x;
  mov.u32 %r5, %ntid.x;
  mul.wide.u32 %d7, %r4, 16;
  mul.wide.u32 %d8, %r5, 16;
  shl.b64 %d9, %d8, 1;
  add.u64 %d10, %d9, %d8;
  shl.b64 %d11, %d8, 2;

NEXT_COPY:
  setp.ge.u32 %p1, %r2, %r1;
  @%p1 bra DONE;
  mul.wide.u32 %d2, %r2, 24;
  add.u64 %d3, %d1, %d2;
  ld.global.u64 %d4, [%d3];
  ld.global.u64 %d5, [%d3+8];
  ld.global.u64 %d6, [%d3+16];
  cvta.to.global.u64 %d4, %d4;
  cvta.to.global.u64 %d5, %d5;
  add.u64 %d4, %d4, %d7;
  add.u64 %d5, %d5, %d7;
  mov.u64 %d12, %d7;

FOUR_WORDS:
  add.u64 %d13, %d12, %d10;
  setp.ge.u64 %p2, %d13, %d6;
  @%p2 bra ONE_WORD;
  add.u64 %d14, %d4, %d8;
  add.u64 %d15, %d4, %d9;
  add.u64 %d16, %d4, %d10;
  ld.global.v4.u32 {%w0, %w1, %w2, %w3}, [%d4];
  ld.global.v4.u32 {%w4, %w5, %w6, %w7}, [%d14];
  ld.global.v4.u32 {%w8, %w9, %w10, %w11}, [%d15];
  ld.global.v4.u32 {%w12, %w13, %w14, %w15}, [%d16];
  add.u64 %d17, %d5, %d8;
  add.u64 %d18, %d5, %d9;
  add.u64 %d19, %d5, %d10;
  st.global.v4.u32 [%d5], {%w0, %w1, %w2, %w3};
  st.global.v4.u32 [%d17], {%w4, %w5, %w6, %w7};
  st.global.v4.u32 [%d18], {%w8, %w9, %w10, %w11};
  st.global.v4.u32 [%d19], {%w12, %w13, %w14, %w15};
  add.u64 %d4, %d4, %d11;
  add.u64 %d5, %d5, %d11;
  add.u64 %d12, %d12, %d11;
  bra FOUR_WORDS;

ONE_WORD:
  setp.ge.u64 %p3, %d12, %d6;
  @%p3 bra COPIED;
  ld.global.v4.u32 {%w0, %w1, %w2, %w3}, [%d4];
  st.global.v4.u32 [%d5], {%w0, %w1, %w2, %w3};
  add.u64 %d4, %d4, %d8;
  add.u64 %d5, %d5, %d8;
  add.u64 %d12, %d12, %d8;
  bra ONE_WORD;

COPIED:
  add.u32 %r2, %r2, %r3;
  bra NEXT_COPY;

DONE:
  ret;
}
)ptx";

}  // namespace kvtier::cuda
