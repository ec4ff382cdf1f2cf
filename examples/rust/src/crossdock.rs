//! The part of Crossdock's C interface that this program needs, and owners for its handles.
use std::ffi::{c_void, CStr};
use std::os::raw::c_char;
use std::{fmt, ptr, slice};

/// The declarations of crossdock/crossdock.h and crossdock/array/c_abi.h, as they stand there.
mod c {
    use super::{c_char, c_void};

    #[repr(C)]
    #[derive(Clone, Copy)]
    pub struct String {
        pub data: *const u8,
        pub size: usize,
    }

    #[repr(C)]
    pub struct GetOptions {
        pub size: usize,
        pub columns: *const String,
        pub n_columns: usize,
        pub first_row: u64,
        pub n_rows: u64,
        pub timeout_ms: i64,
        pub device_id: i64,
        pub device_type: i32,
        pub wait: i32,
        pub validation: i32,
        pub copy_on_write: i32,
    }

    pub const VALIDATION_FULL: i32 = 2;

    #[repr(C)]
    pub struct ArrowSchema {
        pub format: *const c_char,
        pub name: *const c_char,
        pub metadata: *const c_char,
        pub flags: i64,
        pub n_children: i64,
        pub children: *const *const ArrowSchema,
        pub dictionary: *const ArrowSchema,
        pub release: Option<unsafe extern "C" fn(*mut ArrowSchema)>,
        pub private_data: *mut c_void,
    }

    #[repr(C)]
    pub struct ArrowArray {
        pub length: i64,
        pub null_count: i64,
        pub offset: i64,
        pub n_buffers: i64,
        pub n_children: i64,
        pub buffers: *const *const c_void,
        pub children: *const *const ArrowArray,
        pub dictionary: *const ArrowArray,
        pub release: Option<unsafe extern "C" fn(*mut ArrowArray)>,
        pub private_data: *mut c_void,
    }

    pub enum Client {}
    pub enum Reader {}
    pub enum Error {}

    #[link(name = "crossdock_c")]
    extern "C" {
        pub fn crossdock_connect(
            uri: String,
            options: *const c_void,
            out: *mut *mut Client,
            error: *mut *mut Error,
        ) -> i32;
        pub fn crossdock_client_release(client: *mut *mut Client);
        pub fn crossdock_client_get(
            client: *mut Client,
            name: String,
            options: *const GetOptions,
            out: *mut *mut Reader,
            error: *mut *mut Error,
        ) -> i32;
        pub fn crossdock_reader_schema(
            reader: *const Reader,
            out: *mut ArrowSchema,
            error: *mut *mut Error,
        ) -> i32;
        pub fn crossdock_reader_next(
            reader: *mut Reader,
            out: *mut ArrowArray,
            error: *mut *mut Error,
        ) -> i32;
        pub fn crossdock_reader_release(reader: *mut *mut Reader);
        pub fn crossdock_error_message(error: *const Error) -> *const c_char;
        pub fn crossdock_error_release(error: *mut *mut Error);
        pub fn crossdock_status_name(status: i32) -> *const c_char;
    }
}

/// What went wrong in a call.
pub struct Error {
    pub status: i32,
    pub message: String,
}

impl fmt::Display for Error {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        // SAFETY: the name of any number is a text that lives forever.
        let name = unsafe { CStr::from_ptr(c::crossdock_status_name(self.status)) };
        write!(out, "{}: {}", name.to_string_lossy(), self.message)
    }
}

/// Makes a call that writes an error, and turns its status into a result.
fn call(function: impl FnOnce(*mut *mut c::Error) -> i32) -> Result<(), Error> {
    let mut error = ptr::null_mut();
    let status = function(&mut error);
    if status == 0 {
        return Ok(());
    }
    // SAFETY: a call that fails has written the error, which is ours now.
    let message = unsafe { CStr::from_ptr(c::crossdock_error_message(error)) }
        .to_string_lossy()
        .into_owned();
    unsafe { c::crossdock_error_release(&mut error) };
    Err(Error { status, message })
}

fn view(text: &str) -> c::String {
    c::String {
        data: text.as_ptr(),
        size: text.len(),
    }
}

pub struct Client(*mut c::Client);

// The header says so: all functions of a client but its release are thread-safe.
unsafe impl Send for Client {}
unsafe impl Sync for Client {}

impl Client {
    pub fn connect(uri: &str) -> Result<Client, Error> {
        let mut client = ptr::null_mut();
        call(|error| unsafe { c::crossdock_connect(view(uri), ptr::null(), &mut client, error) })?;
        Ok(Client(client))
    }

    /// Requests some columns of a table.
    pub fn get(&self, name: &str, columns: &[&str]) -> Result<Reader, Error> {
        let columns: Vec<c::String> = columns.iter().map(|column| view(column)).collect();
        let options = c::GetOptions {
            size: std::mem::size_of::<c::GetOptions>(),
            columns: columns.as_ptr(),
            n_columns: columns.len(),
            first_row: 0,
            n_rows: 0,
            timeout_ms: 0,
            device_id: 0,
            device_type: 0,
            wait: 0,
            // text() follows offsets that the server wrote. By default those of a process of this user aren't checked.
            validation: c::VALIDATION_FULL,
            copy_on_write: 0,
        };
        let mut reader = ptr::null_mut();
        call(|error| unsafe {
            c::crossdock_client_get(self.0, view(name), &options, &mut reader, error)
        })?;
        Ok(Reader(reader))
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        unsafe { c::crossdock_client_release(&mut self.0) }
    }
}

pub struct Reader(*mut c::Reader);

impl Reader {
    /// The formats of the columns, as the Arrow C data interface writes types.
    pub fn formats(&self) -> Result<Vec<String>, Error> {
        let mut schema: c::ArrowSchema = unsafe { std::mem::zeroed() };
        call(|error| unsafe { c::crossdock_reader_schema(self.0, &mut schema, error) })?;
        // SAFETY: the library has written a schema whose members are valid until it is released.
        unsafe {
            let columns = slice::from_raw_parts(schema.children, schema.n_children as usize);
            let formats = columns.iter().map(|column| {
                CStr::from_ptr((**column).format)
                    .to_string_lossy()
                    .into_owned()
            });
            let formats = formats.collect();
            schema.release.expect("a schema that isn't released")(&mut schema);
            Ok(formats)
        }
    }

    /// The next batch; None at the end.
    pub fn next_batch(&mut self) -> Result<Option<Batch>, Error> {
        let mut array: c::ArrowArray = unsafe { std::mem::zeroed() };
        call(|error| unsafe { c::crossdock_reader_next(self.0, &mut array, error) })?;
        Ok(array.release.is_some().then_some(Batch(array)))
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        unsafe { c::crossdock_reader_release(&mut self.0) }
    }
}

/// Rows of a table, in the server's memory.
pub struct Batch(c::ArrowArray);

impl Batch {
    pub fn rows(&self) -> usize {
        self.0.length as usize
    }

    fn column(&self, index: usize) -> &c::ArrowArray {
        assert!(index < self.0.n_children as usize);
        // SAFETY: the library has checked that each column has all rows, and that its buffers are long enough.
        unsafe { &**self.0.children.add(index) }
    }

    /// The values of a column of the format "g". Those of nulls are undefined numbers.
    ///
    /// # Safety
    /// The column has this format.
    pub unsafe fn floats(&self, index: usize) -> &[f64] {
        let column = self.column(index);
        if column.length == 0 {
            return &[];
        }
        let values = *column.buffers.add(1) as *const f64;
        slice::from_raw_parts(values.add(column.offset as usize), column.length as usize)
    }

    /// The bytes of a text of a column of the format "u".
    ///
    /// # Safety
    /// The column has this format.
    pub unsafe fn text(&self, index: usize, row: usize) -> &[u8] {
        assert!(row < self.rows());
        let column = self.column(index);
        let offsets = (*column.buffers.add(1) as *const i32).add(column.offset as usize + row);
        let (begin, end) = (*offsets as usize, *offsets.add(1) as usize);
        if begin == end {
            return &[];
        }
        slice::from_raw_parts(
            (*column.buffers.add(2) as *const u8).add(begin),
            end - begin,
        )
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        if let Some(release) = self.0.release {
            unsafe { release(&mut self.0) }
        }
    }
}
