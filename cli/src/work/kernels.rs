//! The kernels, as PTX: the driver compiles it for the device it finds, Volta or later.

use std::ffi::{CStr, CString};

/// Cycles of one loop of `spin`: 64 operations, each of which waits 4 cycles for the one before.
pub(super) const SPIN_CYCLES_PER_LOOP: u64 = 256;
const SPIN_OPERATIONS_PER_LOOP: usize = 64;

/// `c = a · b`, each thread one element: naive on purpose, like the paper's.
pub(super) const MATMUL: &CStr = c"
.version 7.0
.target sm_70
.address_size 64

.visible .entry matmul(
    .param .u64 matmul_a,
    .param .u64 matmul_b,
    .param .u64 matmul_c,
    .param .u32 matmul_n
)
{
    .reg .pred %p<3>;
    .reg .b32 %r<12>;
    .reg .f32 %f<4>;
    .reg .b64 %rd<16>;

    ld.param.u64 %rd1, [matmul_a];
    ld.param.u64 %rd2, [matmul_b];
    ld.param.u64 %rd3, [matmul_c];
    ld.param.u32 %r1, [matmul_n];
    cvta.to.global.u64 %rd1, %rd1;
    cvta.to.global.u64 %rd2, %rd2;
    cvta.to.global.u64 %rd3, %rd3;

    mov.u32 %r2, %ctaid.x;
    mov.u32 %r3, %ntid.x;
    mov.u32 %r4, %tid.x;
    mad.lo.u32 %r5, %r2, %r3, %r4;
    mov.u32 %r2, %ctaid.y;
    mov.u32 %r3, %ntid.y;
    mov.u32 %r4, %tid.y;
    mad.lo.u32 %r6, %r2, %r3, %r4;
    max.u32 %r7, %r5, %r6;
    setp.ge.u32 %p1, %r7, %r1;
    @%p1 bra DONE;

    mul.wide.u32 %rd4, %r6, %r1;
    shl.b64 %rd5, %rd4, 2;
    add.u64 %rd6, %rd1, %rd5;
    mul.wide.u32 %rd7, %r5, 4;
    add.u64 %rd8, %rd2, %rd7;
    mul.wide.u32 %rd9, %r1, 4;
    mov.f32 %f1, 0f00000000;
    mov.u32 %r8, 0;
LOOP:
    ld.global.f32 %f2, [%rd6];
    ld.global.f32 %f3, [%rd8];
    fma.rn.f32 %f1, %f2, %f3, %f1;
    add.u64 %rd6, %rd6, 4;
    add.u64 %rd8, %rd8, %rd9;
    add.u32 %r8, %r8, 1;
    setp.lt.u32 %p2, %r8, %r1;
    @%p2 bra LOOP;

    add.u64 %rd10, %rd3, %rd5;
    add.u64 %rd11, %rd10, %rd7;
    st.global.f32 [%rd11], %f1;
DONE:
    ret;
}
";

/// A chain of operations, each on the result of the last, and no shorter while another process has the device. It
/// starts from what is in memory, so that no compiler can know how it ends.
pub(super) fn spin() -> CString {
    let chain = "    fma.rn.f32 %f1, %f1, %f2, %f3;\n".repeat(SPIN_OPERATIONS_PER_LOOP);
    let text = format!(
        ".version 7.0
.target sm_70
.address_size 64

.visible .entry spin(
    .param .u64 spin_loops,
    .param .u64 spin_out
)
{{
    .reg .pred %p<2>;
    .reg .f32 %f<4>;
    .reg .b64 %rd<4>;

    ld.param.u64 %rd1, [spin_loops];
    ld.param.u64 %rd2, [spin_out];
    cvta.to.global.u64 %rd2, %rd2;
    ld.global.f32 %f1, [%rd2];
    mov.f32 %f2, 0f3F000000;
    mov.f32 %f3, 0f3F000000;
LOOP:
{chain}    sub.u64 %rd1, %rd1, 1;
    setp.ne.u64 %p1, %rd1, 0;
    @%p1 bra LOOP;
    st.global.f32 [%rd2], %f1;
    ret;
}}
"
    );
    // The text has no zero byte; an empty module would be refused by the driver, with its reason.
    CString::new(text).unwrap_or_default()
}
